import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { masters } from '../../support/network/layout.ts';
import { haproxyPort } from '../../../tools/lab/components/haproxy.ts';

export const firstHolder = 'm1';

/** By what keepalived knows that a node can serve. */
type Check = 'haproxy' | 'vipnat';

/**
 * Gives every keepalived the configuration of kubeadm's guide to high availability, with the check that is asked for,
 * and has it read that; the VIP's holder last.
 */
export async function configureKeepalived(lab: Lab, check: Check): Promise<void> {
  for (const { name } of listHolderLast()) {
    const folder = join(lab.folder, name);
    writeFileSync(join(folder, 'check_apiserver.sh'), renderScript(lab), { mode: 0o755 });
    writeFileSync(join(folder, 'keepalived.conf'), renderConfiguration(lab, name, check));
    await lab.service(name, 'keepalived').signal('HUP');
  }
}

/** The masters in the order in which a change is least felt. */
export function listHolderLast(): typeof masters {
  return [...masters].sort((a, b) => Number(a.name === firstHolder) - Number(b.name === firstHolder));
}

/**
 * As in the guide, but for the check's pace: 30 s until it counts are too long for a test.
 * Source: kubernetes/kubeadm, docs/ha-considerations.md, "keepalived configuration".
 */
function renderConfiguration(lab: Lab, master: string, check: Check): string {
  const isHolder = master === firstHolder;
  const [definition, use] = check === 'haproxy' ? renderScriptCheck(lab, master) : trackFile;
  return `global_defs {
  router_id LVS_DEVEL
  script_user root
}
${definition}
vrrp_instance VI_1 {
  state ${isHolder ? 'MASTER' : 'BACKUP'}
  interface eth0
  virtual_router_id 51
  priority ${isHolder ? 101 : 100}
  authentication {
    auth_type PASS
    auth_pass 42
  }
  virtual_ipaddress {
    ${lab.vip}
  }
  ${use}
}
`;
}

function renderScriptCheck(lab: Lab, master: string): [definition: string, use: string] {
  const definition = `vrrp_script check_apiserver {
  script "${join(lab.folder, master, 'check_apiserver.sh')}"
  interval 1
  weight -2
  fall 2
  rise 2
}`;
  return [definition, 'track_script {\n    check_apiserver\n  }'];
}

/** Where the lab's agents say whether their node can serve. */
const trackFile = [
  `track_file serving {
  file "/var/lib/vipnat-run/keepalived/serving"
  weight 0
  init_file 0
}`,
  'track_file {\n    serving\n  }',
] as const;

function renderScript({ vip }: Lab): string {
  return `#!/bin/sh
ask() {
  curl --silent --max-time 2 --insecure "https://$1:${haproxyPort}/" --output /dev/null || exit 1
}
ask localhost
if ip addr | grep -q ${vip}; then ask ${vip}; fi
`;
}

import type { Lab } from './lab.ts';
import { runShell } from '../machines/machine.ts';
import { masters, apiserverPort } from '../../../test/support/network/layout.ts';
import { components } from '../components/component.ts';

/** What takes a master out of service, and what brings it back; more than one test and bench do it. */

/** A master loses its power: its cable is dead, and so is everything that ran on it. */
export async function cutPower(lab: Lab, master: string): Promise<void> {
  await lab.cut(master);
  await Promise.all(listComponents(lab).map((component) => lab.service(master, component).signal('KILL')));
}

/** It boots: its disks hold what they held, its interfaces only what is configured. */
export async function restorePower(lab: Lab, master: string): Promise<void> {
  await runShell(lab.machine(master), `ip addr del ${lab.vip} dev eth0 2>/dev/null || true`);
  await lab.join(master);
  for (const component of listComponents(lab)) await lab.start(master, component);
}

/** A master can serve neither by itself nor by others: its apiserver is dead, and a firewall drops what it sends to theirs. */
export async function breakPath(lab: Lab, master: string): Promise<void> {
  const { family } = lab.options;
  const others = masters.filter(({ name }) => name !== master).map(({ addresses }) => addresses[family]);
  const drop = `${family === 'ipv6' ? 'ip6' : 'ip'} daddr { ${others.join(', ')} } tcp dport ${apiserverPort} drop`;
  await runShell(
    lab.machine(master),
    `nft -f - <<'END'
table inet broken-path {
  chain output { type filter hook output priority 0; ${drop}; }
  chain forward { type filter hook forward priority 0; ${drop}; }
}
END`,
  );
  await lab.service(master, 'kube-apiserver').stop('KILL');
}

/** The firewall is right again, and the apiserver started. */
export async function mendPath(lab: Lab, master: string): Promise<void> {
  await runShell(lab.machine(master), 'nft delete table inet broken-path');
  await lab.start(master, 'kube-apiserver');
}

function listComponents(lab: Lab) {
  return components.filter((component) => component !== 'kube-proxy' || lab.hasKubeProxy);
}

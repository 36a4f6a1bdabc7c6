import { vips } from '../../support/network/layout.ts';
import { type Illness } from './illness.ts';
import { type SickHost } from './sick-host.ts';
import { insertSnippets } from '../../support/doctor/snippets.ts';

const vip = vips.ipv4;
const conf = '/etc/keepalived/keepalived.conf';
/** Until it has heard enough, see `SickHost`. */
const listening = ['--capture', '60s'];
const shell = (text: string) => (host: SickHost) => host.shell(text);

/**
 * A keepalived that wants to hold an address. It advertises three times as often as this host's: of two groups with one id
 * the slower one may stay silent.
 */
const renderInstance = (address: string, priority: number) => `global_defs {
  vrrp_version 3
}
vrrp_instance other {
  state BACKUP
  interface eth0
  virtual_router_id 51
  priority ${priority}
  advert_int 0.1
  virtual_ipaddress {
    ${address}/32
  }
}
`;

let endOther: () => void = () => undefined;

export const keepalivedIllnesses: readonly Illness[] = [
  {
    name: 'two who hold the VIP',
    args: listening,
    faults: [
      {
        code: 'vip-held-twice',
        seed: async (host) => {
          await host.shell('iptables-nft -A INPUT -p vrrp -j DROP');
          endOther = host.startKeepalived('m2', renderInstance(vip, 254));
          await waitForAddress(host, 'm2', vip);
        },
        after: async (host) => {
          endOther();
          await host.shell('iptables-nft -F INPUT');
        },
      },
    ],
  },
  {
    name: 'a foreign host that has the VIP and sends no VRRP',
    args: listening,
    faults: [
      {
        code: 'vip-held-without-vrrp',
        seed: (host) => onClient(host, `ip addr add ${vip}/32 dev eth0`),
        follow: (host) => onClient(host, `ip addr del ${vip}/32 dev eth0`),
      },
    ],
  },
  {
    name: "somebody else's group",
    args: listening,
    faults: [
      {
        code: 'vrid-clash',
        seed: async (host) => {
          endOther = host.startKeepalived('client', renderInstance('10.77.0.99', 254));
          await waitForAddress(host, 'client', '10.77.0.99');
        },
        // The only master is the holder.
        follow: (host, remedy) =>
          host.shell(`sed -i 's/virtual_router_id .*/${findLine(remedy, '     virtual_router_id')}/' ${conf}
kill -HUP $(cat /run/keepalived.pid)`),
        after: async (host) => {
          endOther();
          await renewKeepalived(host);
        },
      },
    ],
  },
  {
    name: 'a keepalived that the agent cannot reach',
    faults: [
      {
        code: 'keepalived-untracked',
        seed: shell(
          `sed -i "/track_file {/,/}/d; /track_file serving {/,/}/d; s!/run/vipnat/keepalived/serving!!" ${conf}`,
        ),
        follow: (host, remedy) => insertSnippets(host, conf, remedy),
        after: renewKeepalived,
      },
    ],
  },
  {
    name: 'a keepalived for another address',
    faults: [
      {
        code: 'keepalived-lacks-vip',
        seed: shell(`sed -i 's/${vip}/10.77.0.51/; s/virtual_router_id .*/virtual_router_id 60/' ${conf}`),
        // No master has the instance.
        follow: (host, remedy) =>
          host.shell(
            `${findLine(remedy, 'vipnat keepalived')} 2>/dev/null | sed -n '/^vrrp_instance/,/^}/p' >>${conf}`,
          ),
        after: renewKeepalived,
      },
    ],
  },
];

/** As vipnat prints it, for the next fault. */
async function renewKeepalived(host: SickHost): Promise<void> {
  await host.shell(
    `vipnat keepalived --vip ${vip} --advert 300ms >${conf} 2>/dev/null; systemctl restart keepalived`,
  );
}

function findLine(remedy: readonly string[], words: string): string {
  return remedy.find((line) => line.includes(words))?.replace(/^[# ]*/, '') ?? `no line has ${words}`;
}

const onClient = ({ cluster }: SickHost, script: string) => cluster.shell('client', script);

async function waitForAddress({ cluster }: SickHost, machine: string, address: string): Promise<void> {
  const namespace = cluster.namespaceOf(machine);
  await cluster.namespaces.shell(
    namespace,
    `for try in $(seq 600); do ip -o addr show dev eth0 | grep -q ' ${address}/' && exit; sleep 0.1; done; exit 1`,
  );
}

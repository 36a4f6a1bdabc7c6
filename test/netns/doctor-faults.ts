import { vips } from '../network/layout.ts';
import { renderKubeconfig, type SickHost } from './sick-host.ts';
import { trackFileIllnesses } from './track-file-faults.ts';

/** Something that is wrong with a host. */
export interface Fault {
  /** What doctor has to call it. */
  readonly code: string;
  readonly seed: (host: SickHost) => Promise<unknown>;
  /** Takes back what the remedy leaves alone. */
  readonly after?: (host: SickHost) => Promise<unknown>;
}

/** Faults that a host can have at the same time. */
export interface Illness {
  readonly name: string;
  readonly faults: readonly Fault[];
  /** What doctor is asked beside the VIP. */
  readonly args?: readonly string[];
}

const vip = vips.ipv4;
const kubernetes = '/etc/kubernetes';

/** A keepalived that wants to hold an address. */
const renderInstance = (address: string, priority: number) => `global_defs {
  vrrp_version 3
}
vrrp_instance other {
  state BACKUP
  interface eth0
  virtual_router_id 51
  priority ${priority}
  advert_int 0.3
  virtual_ipaddress {
    ${address}/32
  }
}
`;

const write = (path: string, text: string) => (host: SickHost) =>
  host.shell(`cat >${path} <<'END'\n${text}END\n`);
const shell = (text: string) => (host: SickHost) => host.shell(text);
const nat = 'iptables-nft -t nat';

/** Somebody else's program, by its name in /proc, that listens where it is told. */
const startProgram = (name: string, port: number) =>
  shell(`setsid ${process.execPath} -e 'process.title = "${name}"; require("node:net").createServer().listen(${port}, () => console.log("ready"))' >/run/program.log 2>&1 </dev/null &
while [ ! -s /run/program.log ]; do sleep 0.02; done
rm /run/program.log`);

let endOther: () => void = () => undefined;

const listening = ['--capture', '1.2s'];

/** One after the other on the same host: each leaves it as it was. */
export const illnesses: readonly Illness[] = [
  {
    name: "the kernel's switches and files",
    faults: [
      { code: 'forwarding-off', seed: shell('echo 0 >/proc/sys/net/ipv4/ip_forward') },
      { code: 'rp-filter-strict', seed: shell('echo 1 >/proc/sys/net/ipv4/conf/eth0/rp_filter') },
      { code: 'conntrack-not-loose', seed: shell('echo 0 >/proc/sys/net/netfilter/nf_conntrack_tcp_loose') },
      {
        code: 'forward-dropped-elsewhere',
        // The second chain is a native one in a table of iptables.
        seed: shell(
          `nft add table inet firewall
          for table in 'inet firewall' 'ip filter'; do
            nft "add chain $table forward { type filter hook forward priority 0; policy drop; }"
          done`,
        ),
        after: shell(
          'nft delete table inet firewall; nft "flush chain ip filter forward; delete chain ip filter forward"',
        ),
      },
      {
        code: 'kubeconfig-at-vip',
        seed: write(`${kubernetes}/controller-manager.conf`, renderKubeconfig(`https://${vip}:6443`)),
      },
      {
        code: 'kubeconfig-past-vip',
        seed: write(`${kubernetes}/admin.conf`, renderKubeconfig('https://10.77.0.12:6443')),
      },
      {
        code: 'no-shutdown-delay',
        seed: shell(`sed -i /shutdown-delay/d ${kubernetes}/manifests/kube-apiserver.yaml`),
      },
    ],
  },
  {
    name: 'rules',
    faults: [
      {
        code: 'forward-dropped',
        seed: shell(
          'iptables-nft -P FORWARD DROP; iptables-nft -D FORWARD 1; iptables-nft -F VIPNAT-FORWARD',
        ),
        after: shell('iptables-nft -P FORWARD ACCEPT'),
      },
      { code: 'rules-differ', seed: shell(`${nat} -F VIPNAT`) },
      {
        code: 'foreign-dnat',
        seed: shell(
          `${nat} -A PREROUTING -d ${vip}/32 -p tcp -m tcp --dport 6443 -m comment --comment "it's \\$(reboot)" -j DNAT --to-destination 10.77.0.12:6443`,
        ),
      },
      {
        code: 'iptables-backends-mixed',
        // What a kube-proxy that was told to use the other backend leaves behind.
        seed: shell(
          `(echo '*nat'; iptables-nft-save -t nat | grep '^:KUBE'; echo COMMIT) | iptables-legacy-restore`,
        ),
      },
      {
        code: 'certificate-expires',
        seed: shell(`issue-certificate kubernetes,10.77.0.11,${vip} 5; systemctl restart kube-apiserver`),
      },
    ],
  },
  {
    name: 'leftovers',
    faults: [
      { code: 'stale-rules', seed: shell(`vipnat run --once --vip ${vip} --vip 10.77.0.60`) },
      {
        code: 'kube-proxy-unhealthy',
        seed: shell('echo iptables 503 >/run/kube-proxy.arguments; systemctl restart kube-proxy'),
      },
      {
        code: 'certificate-lacks-vip',
        seed: shell(
          'issue-certificate kubernetes,10.96.0.1,10.77.0.11 365; systemctl restart kube-apiserver',
        ),
      },
    ],
  },
  {
    name: 'kube-proxy',
    faults: [
      {
        code: 'kube-proxy-blocked',
        // It fails, as the chain that it wants gone is in use.
        seed: (host) => host.kubeProxy.sync([]).catch(() => undefined),
        after: async (host) => {
          await host.kubeProxy.sync([]);
          await host.kubeProxy.sync();
          await host.shell(`vipnat run --once --vip ${vip}`);
        },
      },
      { code: 'kube-proxy-down', seed: shell('systemctl stop kube-proxy') },
    ],
  },
  {
    name: 'strangers',
    args: ['--vip', `${vip}:8443`],
    faults: [
      { code: 'apiserver-down', seed: shell('systemctl stop kube-apiserver') },
      { code: 'foreign-listener', seed: startProgram('haproxy', 8443) },
      { code: 'kube-vip-running', seed: startProgram('kube-vip', 2112) },
    ],
  },
  {
    name: 'nobody who looks after it',
    faults: [
      // In ipvs mode no apiserver is known here, where there is no IPVS: that is another's fault.
      {
        code: 'strict-arp-off',
        seed: shell('echo ipvs 200 >/run/kube-proxy.arguments; systemctl restart kube-proxy'),
        after: shell('rm /run/kube-proxy.arguments; systemctl restart kube-proxy'),
      },
      {
        code: 'agent-not-running',
        seed: () => Promise.resolve(),
        after: shell('systemctl stop vipnat'),
      },
    ],
  },
  {
    name: 'nobody who holds the VIP',
    faults: [
      { code: 'vip-nowhere', seed: shell('systemctl stop keepalived') },
      { code: 'keepalived-not-running', seed: shell('systemctl stop keepalived') },
    ],
  },
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
    name: "somebody else's group",
    args: listening,
    faults: [
      {
        code: 'vrid-clash',
        seed: async (host) => {
          endOther = host.startKeepalived('client', renderInstance('10.77.0.99', 254));
          await waitForAddress(host, 'client', '10.77.0.99');
        },
        after: () => {
          endOther();
          return Promise.resolve();
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
          'sed -i "/track_file {/,/}/d; /track_file serving {/,/}/d; s!/run/vipnat/keepalived/serving!!" /etc/keepalived/keepalived.conf',
        ),
      },
    ],
  },
  ...trackFileIllnesses,
  {
    name: 'a keepalived for another address',
    faults: [
      {
        code: 'keepalived-lacks-vip',
        seed: shell(`sed -i s/${vip}/10.77.0.51/ /etc/keepalived/keepalived.conf`),
      },
    ],
  },
];

async function waitForAddress({ cluster }: SickHost, machine: string, address: string): Promise<void> {
  const namespace = cluster.namespaceOf(machine);
  await cluster.namespaces.shell(
    namespace,
    `for try in $(seq 100); do ip -o addr show dev eth0 | grep -q ' ${address}/' && exit; sleep 0.1; done; exit 1`,
  );
}

import { vips } from '../../support/network/layout.ts';
import { type Fault, type Illness } from './illness.ts';
import { keepalivedIllnesses } from './keepalived-faults.ts';
import { renderKubeconfig, type SickHost } from './sick-host.ts';

const shell = (text: string) => (host: SickHost) => host.shell(text);

/** One that a script makes, and what takes back what the remedy leaves alone. */
const fault = (code: string, seed: string, after = 'true'): Fault => ({
  ...{ code, seed: shell(seed), after: shell(after) },
});

/** What can be wrong between the agent and keepalived. */
const trackFileIllnesses: readonly Illness[] = [
  {
    name: 'a keepalived that has lost its track file',
    faults: [
      fault(
        'track-file-dropped',
        'mv /run/vipnat/keepalived /run/vipnat/old; rm -r /run/vipnat/old; mkdir /run/vipnat/keepalived',
      ),
    ],
  },
  {
    name: 'a word that nobody stands for any more',
    faults: [fault('track-file-stale', 'echo 1 >/run/vipnat/keepalived/serving')],
  },
];

const vip = vips.ipv4;
const kubernetes = '/etc/kubernetes';

const write = (path: string, text: string) => (host: SickHost) =>
  host.shell(`cat >${path} <<'END'\n${text}END\n`);
const nat = 'iptables-nft -t nat';

/** Somebody else's program, by its name in /proc, that listens where it is told. */
const startProgram = (name: string, port: number) =>
  shell(`setsid ${process.execPath} -e 'process.title = "${name}"; require("node:net").createServer().listen(${port}, () => console.log("ready"))' >/run/program.log 2>&1 </dev/null &
while [ ! -s /run/program.log ]; do sleep 0.02; done
rm /run/program.log`);

const quick = ['--capture', '0s'];

/** One after the other on the same host: each leaves it as it was. */
export const illnesses: readonly Illness[] = [
  {
    name: "the kernel's switches and files",
    faults: [
      fault('forwarding-off', 'echo 0 >/proc/sys/net/ipv4/ip_forward'),
      fault('rp-filter-strict', 'echo 1 >/proc/sys/net/ipv4/conf/eth0/rp_filter'),
      fault(
        'vip-route-left-over',
        'ip route prepend local 10.77.0.99 dev eth0 table local proto 118 scope host src 10.77.0.11',
      ),
      fault('conntrack-not-loose', 'echo 0 >/proc/sys/net/netfilter/nf_conntrack_tcp_loose'),
      fault(
        'forward-dropped-elsewhere',
        // The second chain is a native one in a table of iptables.
        `nft add table inet firewall
          for table in 'inet firewall' 'ip filter'; do
            nft "add chain $table forward { type filter hook forward priority 0; policy drop; }"
          done`,
        'nft delete table inet firewall; nft "flush chain ip filter forward; delete chain ip filter forward"',
      ),
      fault(
        'dropped-by-rule',
        `iptables-nft -t mangle -A FORWARD -p tcp --dport 6443 -j DROP
          nft 'add table inet fw; add chain inet fw in { type filter hook input priority 0; }'
          nft 'add rule inet fw in ct state vmap { established : accept }; add rule inet fw in tcp dport 6443 drop'`,
        'nft delete table inet fw',
      ),
      fault(
        'packets-not-tracked',
        `iptables-nft -t raw -A PREROUTING -p tcp --dport 6443 -j CT --notrack
          iptables-legacy -t raw -A OUTPUT -p tcp --sport 6443 -j NOTRACK
          nft 'add table inet fast; add chain inet fast early { type filter hook prerouting priority -300; }'
          nft 'add rule inet fast early tcp sport 6443 notrack'`,
        'iptables-nft -t raw -F; iptables-legacy -t raw -F; nft delete table inet fast',
      ),
      {
        code: 'kubeconfig-at-vip',
        seed: write(`${kubernetes}/controller-manager.conf`, renderKubeconfig(`https://${vip}:6443`)),
      },
      {
        code: 'kubeconfig-past-vip',
        seed: write(`${kubernetes}/admin.conf`, renderKubeconfig('https://10.77.0.12:6443')),
      },
      fault('no-shutdown-delay', `sed -i /shutdown-delay/d ${kubernetes}/manifests/kube-apiserver.yaml`),
    ],
  },
  {
    name: 'rules',
    faults: [
      fault(
        'forward-dropped',
        'iptables-nft -P FORWARD DROP; iptables-nft -D FORWARD 1; iptables-nft -F VIPNAT-FORWARD',
        'iptables-nft -P FORWARD ACCEPT',
      ),
      fault('rules-differ', `${nat} -F VIPNAT`),
      fault(
        'iptables-backends-mixed',
        // What a kube-proxy that was told to use the other backend leaves behind.
        `(echo '*nat'; iptables-nft-save -t nat | grep '^:KUBE'; iptables-nft-save -t nat | grep '^-A PREROUTING.*KUBE-SERVICES'; echo COMMIT) |
            iptables-legacy-restore`,
      ),
      fault(
        'certificate-expires',
        `issue-certificate kubernetes,10.77.0.11,${vip} 5; systemctl restart kube-apiserver`,
      ),
    ],
  },
  {
    name: 'leftovers',
    faults: [
      {
        code: 'stale-rules',
        seed: shell(`vipnat run --once --vip ${vip} --vip 10.77.0.60`),
        follow: async (host, remedy) => {
          // Pasted, it has taken nothing away.
          await host.shell(`vipnat check --vip ${vip} --vip 10.77.0.60`);
          const start = '# if it is no longer wanted: ';
          await host.shell(remedy.find((line) => line.startsWith(start))?.slice(start.length) ?? 'false');
        },
      },
      fault(
        'kube-proxy-unhealthy',
        'echo iptables 503 >/run/kube-proxy.arguments; systemctl restart kube-proxy',
      ),
      fault(
        'certificate-lacks-vip',
        'issue-certificate kubernetes,10.96.0.1,10.77.0.11 365; systemctl restart kube-apiserver',
      ),
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
      fault('kube-proxy-down', 'systemctl stop kube-proxy'),
      fault('apiserver-down', 'systemctl stop kube-apiserver'),
    ],
  },
  {
    name: 'strangers beside an agent that balances the VIP',
    args: [...quick, '--vip', `${vip}:8443`],
    faults: [
      {
        code: 'foreign-dnat',
        seed: async (host) => {
          await host.shell(`echo --vip ${vip}:8443 >/run/vipnat.arguments; systemctl start vipnat
for try in $(seq 100); do vipnat check --vip ${vip} --vip ${vip}:8443 >/dev/null && break; sleep 0.1; done
${nat} -A PREROUTING -d ${vip}/32 -p tcp -m tcp --dport 6443 -m comment --comment "it's \\$(reboot)" -j DNAT --to-destination 10.77.0.12:6443`);
        },
        after: shell(`rm /run/vipnat.arguments; systemctl stop vipnat; vipnat run --once --vip ${vip}`),
      },
      { code: 'foreign-listener', seed: startProgram('haproxy', 8443) },
      { code: 'kube-vip-running', seed: startProgram('kube-vip', 2112) },
    ],
  },
  {
    name: 'an apiserver that answers nobody whom it does not know',
    args: quick,
    faults: [
      {
        code: 'liveness-only',
        seed: shell(
          `echo strict >/run/kube-apiserver.manner; systemctl restart kube-apiserver
          cp ${kubernetes}/pki/apiserver.crt ${kubernetes}/pki/ca.crt`,
        ),
        follow: async (host) => {
          await host.shell(`cat >/run/kubeconfig <<'END'
${renderKubeconfig('https://10.77.0.11:6443')}contexts:
- { name: vipnat, context: { cluster: kubernetes, user: vipnat } }
current-context: vipnat
users:
- { name: vipnat, user: { token: a token } }
END
echo --kubeconfig /run/kubeconfig >/run/vipnat.arguments; systemctl start vipnat`);
        },
        after: shell(
          `rm /run/vipnat.arguments /run/kube-apiserver.manner ${kubernetes}/pki/ca.crt
          systemctl stop vipnat; systemctl restart kube-apiserver; vipnat run --once --vip ${vip}`,
        ),
      },
    ],
  },
  {
    name: 'nobody who looks after it',
    faults: [
      // In ipvs mode no apiserver is known here, where there is no IPVS: that is another's fault.
      fault(
        'strict-arp-off',
        'echo ipvs 200 >/run/kube-proxy.arguments; systemctl restart kube-proxy',
        'rm -f /run/kube-proxy.arguments; systemctl restart kube-proxy',
      ),
      // Real here: no kernel of a namespace's host has ip_vs that has not been asked for it.
      fault('ipvs-modules-missing', 'true'),
      fault('agent-not-running', 'true', 'systemctl stop vipnat'),
    ],
  },
  {
    name: 'nobody who holds the VIP',
    faults: [
      fault('vip-nowhere', 'systemctl stop keepalived'),
      fault('keepalived-not-running', 'systemctl stop keepalived'),
    ],
  },
  ...keepalivedIllnesses,
  ...trackFileIllnesses,
];

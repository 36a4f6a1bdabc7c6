import { describe, test, expect } from '@jest/globals';
import { type HostFacts, sysctlNames } from '../../../../cli/doctor/facts.ts';
import {
  withSysctl,
  makeProcess,
  withConfiguration,
  keepalivedText,
  keepalived,
  own,
  advert,
  withFile,
  kubeconfig,
  tell,
} from '../../../support/doctor/well-host.ts';

describe('is told, with the command that mends it:', () => {
  test.each<[string, Partial<HostFacts>, string, string]>([
    [
      'not-permitted',
      { rights: { value: { hasNetAdmin: false, hasNetRaw: true } } },
      'fail',
      'sudo vipnat doctor --vip=10.77.0.50:6443',
    ],
    ['no-firewall-tool', { tools: new Set(['apt-get']) }, 'fail', 'apt-get install iptables'],
    [
      'conntrack-nearly-full',
      {
        sysctls: new Map([
          [sysctlNames.conntrackCount, '80'],
          [sysctlNames.conntrackMax, '100'],
          [sysctlNames.conntrackLoose, '1'],
        ]),
      },
      'warn',
      'sysctl -w net.netfilter.nf_conntrack_max=200',
    ],
    [
      'conntrack-nearly-full',
      {
        sysctls: new Map([
          [sysctlNames.conntrackCount, '95'],
          [sysctlNames.conntrackMax, '100'],
          [sysctlNames.conntrackLoose, '1'],
        ]),
      },
      'fail',
      'sysctl -w net.netfilter.nf_conntrack_max=200',
    ],
    [
      'conntrack-not-loose',
      withSysctl(sysctlNames.conntrackLoose, '0'),
      'warn',
      'sysctl -w net.netfilter.nf_conntrack_tcp_loose=1',
    ],
    [
      'keepalived-not-running',
      {
        processes: {
          value: [makeProcess('kube-apiserver', { arguments: ['x', '--shutdown-delay-duration', '5s'] })],
        },
      },
      'warn',
      'systemctl enable --now keepalived',
    ],
    [
      'keepalived-lacks-vip',
      withConfiguration('vrrp_instance x {\n virtual_router_id 7\n virtual_ipaddress { 10.77.0.9 }\n}'),
      'warn',
      'vipnat keepalived --vip=10.77.0.50:6443',
    ],
    [
      'keepalived-untracked',
      withConfiguration(keepalivedText.replace('serving"', 'other"')),
      'warn',
      'keepalived --config-test --use-file=/etc/keepalived/keepalived.conf && kill -HUP 7',
    ],
    [
      'track-file-dropped',
      { trackFile: { value: { content: '0', isWatched: false } } },
      'warn',
      'kill -HUP 7',
    ],
    [
      'host-drained',
      { drain: { value: { since: new Date(0), vipStaysSince: null } } },
      'warn',
      'vipnat undrain',
    ],
    [
      'host-drained',
      { drain: { value: { since: new Date(), vipStaysSince: new Date() } } },
      'warn',
      'vipnat drain',
    ],
    [
      'track-file-dropped',
      {
        trackFile: { value: { content: '1', isWatched: false } },
        processes: {
          value: [
            { ...keepalived, pid: 12, group: '/system.slice/keepalived.service' },
            { ...keepalived, group: '/system.slice/keepalived.service' },
            makeProcess('kube-apiserver', { pid: 8, arguments: ['x', '--shutdown-delay-duration=9s'] }),
          ],
        },
      },
      'warn',
      'systemctl reload keepalived.service',
    ],
    [
      'vip-held-twice',
      { adverts: { value: [own, advert, own, advert] } },
      'fail',
      'iptables-nft -I INPUT -p vrrp -s 10.77.0.12 -j ACCEPT',
    ],
    [
      'vip-held-twice',
      { adverts: { value: [advert, advert] } },
      'fail',
      'iptables-nft -I INPUT -p vrrp -s 10.77.0.12 -j ACCEPT',
    ],
    [
      'vrid-clash',
      {
        adverts: {
          value: [
            { ...advert, source: '10.77.0.99', addresses: ['10.77.0.7'] },
            { ...advert, source: '10.77.0.98', vrid: 52, addresses: ['10.77.0.8'] },
          ],
        },
      },
      'fail',
      '#      virtual_router_id 53',
    ],
    [
      'kubeconfig-at-vip',
      withFile('/etc/kubernetes/scheduler.conf', kubeconfig('https://cluster-endpoint:6443')),
      'warn',
      "sed -i 's#https://cluster-endpoint:6443#https://10.77.0.11:6443#' /etc/kubernetes/scheduler.conf",
    ],
    [
      'kubeconfig-past-vip',
      withFile('/etc/kubernetes/kubelet.conf', kubeconfig('https://10.77.0.13:6443')),
      'warn',
      "sed -i 's#https://10.77.0.13:6443#https://10.77.0.11:6443#' /etc/kubernetes/kubelet.conf",
    ],
    [
      'kube-proxy-unhealthy',
      { kubeProxy: { status: 503, ipvs: null } },
      'fail',
      'kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName="$(hostname)"',
    ],
    [
      'foreign-virtual-server',
      {
        ipvs: {
          value: 'TCP  0A4D0032:192B rr\n  -> 0A4D000D:192B      Masq    1      0          0         \n',
        },
      },
      'warn',
      'ipvsadm -D -t 10.77.0.50:6443',
    ],
    [
      'foreign-listener',
      {
        listeners: { value: [{ family: 'ipv4', address: '10.77.0.50', port: 6443, pid: 20 }] },
        processes: {
          value: [
            keepalived,
            makeProcess('kube-apiserver', { pid: 8, arguments: ['x', '--shutdown-delay-duration=9s'] }),
            makeProcess('haproxy', { group: '/system.slice/haproxy.service' }),
          ],
        },
      },
      'fail',
      'systemctl disable --now haproxy.service',
    ],
    [
      'kube-vip-running',
      {
        processes: {
          value: [
            keepalived,
            makeProcess('kube-apiserver', { pid: 8, arguments: ['x', '--shutdown-delay-duration=9s'] }),
            makeProcess('kube-vip', { group: '/kubepods.slice/x' }),
          ],
        },
      },
      'warn',
      'mv /etc/kubernetes/manifests/kube-vip.yaml /etc/kubernetes/',
    ],
    ['agent-not-running', { agent: null }, 'warn', 'systemctl enable --now vipnat'],
    [
      'agent-other-version',
      { agent: { version: '0.0.9', pid: 1, since: '' } },
      'warn',
      'systemctl restart vipnat',
    ],
    [
      'forward-dropped-elsewhere',
      { forwardChains: { value: [{ table: 'inet firewall', name: 'fwd', isDropping: true }] } },
      'fail',
      'nft insert rule inet firewall fwd ct status dnat accept',
    ],
    [
      'packets-not-tracked',
      {
        earlyRules: {
          value: [
            {
              ...{ kind: 'iptables', family: 'ipv4', dialect: 'nft' },
              text: '*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 6443 -j CT --notrack\nCOMMIT\n',
            },
          ],
        },
      },
      'fail',
      'iptables-nft -t raw -I PREROUTING -p tcp -d 10.77.0.50 --dport 6443 -j ACCEPT',
    ],
    [
      'no-shutdown-delay',
      {
        processes: {
          value: [
            keepalived,
            makeProcess('kube-apiserver', { arguments: ['kube-apiserver', '--shutdown-delay-duration=0s'] }),
          ],
        },
      },
      'warn',
      '# start kube-apiserver with --shutdown-delay-duration=10s',
    ],
  ])('%s %#', async (code, changes, level, command) => {
    const told = (await tell(changes)).filter((outcome) => outcome.level !== 'skipped');
    expect(told).toMatchObject([{ code, level, remedy: expect.arrayContaining([command]) }]);
  });
});

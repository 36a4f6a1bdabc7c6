/** kube-proxy's nftables and ipvs modes in the kernel in memory: what it leaves there for vipnat to read. */
import type { FakeKernel } from '../fakes/kernel.ts';
import { readCapture } from './read-capture.ts';
import type { Endpoint } from '../../../lib/net.ts';
import { isToolRefusing } from '../fakes/refusal.ts';

/** The states that kube-proxy's table of nftables was captured in. */
export type NftCapture = 'three-endpoints' | 'two-endpoints' | 'no-endpoints' | 'client-ip-affinity';

/** Has its table of nftables as it was captured, or none. */
export function setNftCapture(kernel: FakeKernel, capture: NftCapture | null): void {
  kernel.setNftProxy('ipv4', capture === null ? null : readObjects(`nft-kube-proxy.${capture}.json`));
}

/** Has the virtual servers that were captured, or none. */
export function setIpvsCapture(
  kernel: FakeKernel,
  capture: 'three-endpoints' | 'two-endpoints' | null,
): void {
  kernel.setIpvs(capture === null ? null : readCapture(`proc-net-ip_vs.${capture}.txt`));
}

/** The rules by which its ipvs mode is known: the sets and addresses beside them are nothing that vipnat reads. */
const ipvsRules = [
  '*nat',
  ':KUBE-SERVICES - [0:0]',
  '-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT',
  'COMMIT',
  '',
].join('\n');

const jumps = ['PREROUTING', 'OUTPUT'].map((chain) => `${chain} -j KUBE-SERVICES`);

/** Writes the rules and the virtual server of default/kubernetes, at 10.96.0.1:443, in IPv4 and iptables-nft. */
export function syncIpvs(kernel: FakeKernel, endpoints: readonly Endpoint[]): void {
  kernel.run('ipv4', 'nft', ipvsRules);
  const rules = kernel.show('ipv4', 'nft');
  for (const jump of jumps)
    if (!rules.includes(`-A ${jump}\n`)) kernel.run('ipv4', 'nft', `*nat\n-I ${jump}\nCOMMIT\n`);
  kernel.setIpvs(printIpvs(endpoints));
}

/** Takes them away, where they are. */
export function removeIpvs(kernel: FakeKernel): void {
  kernel.setIpvs(null);
  for (const jump of jumps) {
    // Whether it is there or not: others hear of the attempt, too.
    isToolRefusing(() => {
      kernel.run('ipv4', 'nft', `*nat\n-D ${jump}\nCOMMIT\n`);
    });
  }
  if (!kernel.show('ipv4', 'nft').includes('--match-set KUBE-CLUSTER-IP ')) return;
  kernel.run('ipv4', 'nft', '*nat\n:KUBE-SERVICES - [0:0]\n-X KUBE-SERVICES\nCOMMIT\n');
}

/** /proc/net/ip_vs with the virtual server of 10.96.0.1:443. */
function printIpvs(endpoints: readonly Endpoint[]): string {
  return [
    'IP Virtual Server version 1.2.1 (size=4096)',
    'Prot LocalAddress:Port Scheduler Flags',
    '  -> RemoteAddress:Port Forward Weight ActiveConn InActConn',
    'TCP  0A600001:01BB rr  ',
    ...endpoints.map(
      ({ address }) => `  -> ${toHex(address)}:192B      Masq    1      0          0         `,
    ),
    '',
  ].join('\n');
}

function toHex(address: string): string {
  return address
    .split('.')
    .map((part) => Number(part).toString(16).toUpperCase().padStart(2, '0'))
    .join('');
}

function readObjects(name: string): readonly unknown[] {
  return (JSON.parse(readCapture(name)) as { nftables: unknown[] }).nftables;
}

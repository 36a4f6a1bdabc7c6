import { readFileSync } from 'node:fs';
import { type ProxyMode } from '../../../../agent/observe/proxy-mode.ts';
import { type FakeKernel } from '../../../support/fakes/kernel.ts';
import { removeKubeProxy, syncKubeProxy } from '../../../support/fakes/kube-proxy-rules.ts';
import { isToolRefusing } from './kernels.ts';
import { endpointSets, type EndpointSet, nft } from './small-world.ts';

/** What a kube-proxy wants: its mode, and the apiservers that it has heard of. */
export interface ProxyWish {
  readonly mode: ProxyMode;
  readonly set: EndpointSet;
}

/**
 * One start or update of kube-proxy: removes what another mode of it left, and writes its own. Answers whether a tool
 * refused a part, as it does while a jump of somebody else's keeps its chain from going: kube-proxy goes on all the same,
 * and tries again later.
 */
export function runKubeProxy(kernel: FakeKernel, { mode, set }: ProxyWish): boolean {
  if (mode !== 'nftables') kernel.setNftProxy('ipv4', null);
  removeIpvs(kernel);
  const write = {
    iptables: () => {
      syncKubeProxy(kernel, nft, endpointSets[set]);
    },
    ipvs: () => {
      writeIpvs(kernel, set);
    },
    nftables: () => {
      kernel.setNftProxy('ipv4', readCapture(`nft-kube-proxy.${toWord(set)}.json`));
    },
    none: () => undefined,
  }[mode];
  const isPinned =
    mode !== 'iptables' &&
    hasServices(kernel) &&
    isToolRefusing(() => {
      removeKubeProxy(kernel, nft);
    });
  return isToolRefusing(write) || isPinned;
}

function hasServices(kernel: FakeKernel): boolean {
  return /^:KUBE-(?:FORWARD|SVC-\S+) /m.test(kernel.show('ipv4', 'nft'));
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

function writeIpvs(kernel: FakeKernel, set: EndpointSet): void {
  kernel.run('ipv4', 'nft', ipvsRules);
  const rules = kernel.show('ipv4', 'nft');
  for (const jump of jumps) {
    if (!rules.includes(`-A ${jump}\n`)) kernel.run('ipv4', 'nft', `*nat\n-I ${jump}\nCOMMIT\n`);
  }
  kernel.setIpvs(printIpvs(set));
}

function removeIpvs(kernel: FakeKernel): void {
  kernel.setIpvs(null);
  for (const jump of jumps) {
    isToolRefusing(() => {
      kernel.run('ipv4', 'nft', `*nat\n-D ${jump}\nCOMMIT\n`);
    });
  }
  if (!kernel.show('ipv4', 'nft').includes('--match-set KUBE-CLUSTER-IP ')) return;
  kernel.run('ipv4', 'nft', '*nat\n:KUBE-SERVICES - [0:0]\n-X KUBE-SERVICES\nCOMMIT\n');
}

/** /proc/net/ip_vs with the virtual server of 10.96.0.1:443. */
function printIpvs(set: EndpointSet): string {
  return [
    'IP Virtual Server version 1.2.1 (size=4096)',
    'Prot LocalAddress:Port Scheduler Flags',
    '  -> RemoteAddress:Port Forward Weight ActiveConn InActConn',
    'TCP  0A600001:01BB rr  ',
    ...endpointSets[set].map(
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

function toWord(set: EndpointSet): string {
  return `${set === 'none' ? 'no' : set}-endpoints`;
}

function readCapture(name: string): readonly unknown[] {
  const text = readFileSync(new URL(`../../../support/fixtures/captures/${name}`, import.meta.url), 'utf8');
  return (JSON.parse(text) as { nftables: unknown[] }).nftables;
}

import type { FoundProxyMode } from '../../../../agent/observe/kube-proxy.ts';
import { type EndpointSet, nft, endpointSets } from './small-world.ts';
import type { FakeKernel } from '../../../support/fakes/kernel.ts';
import { setNftCapture, removeIpvs, syncIpvs } from '../../../support/kube-proxy/other-modes.ts';
import { syncKubeProxy, removeKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { isToolRefusing } from '../../../support/fakes/refusal.ts';

/** What a kube-proxy wants: its mode, and the apiservers that it has heard of. */
export interface ProxyWish {
  readonly mode: FoundProxyMode;
  readonly set: EndpointSet;
}

/**
 * One start or update of kube-proxy: removes what another mode of it left, and writes its own. Answers whether a tool
 * refused a part, as it does while a jump of somebody else's keeps its chain from going: kube-proxy goes on all the same,
 * and tries again later.
 */
export function runKubeProxy(kernel: FakeKernel, { mode, set }: ProxyWish): boolean {
  if (mode !== 'nftables') setNftCapture(kernel, null);
  removeIpvs(kernel);
  const write = {
    iptables: () => {
      syncKubeProxy(kernel, nft, endpointSets[set]);
    },
    ipvs: () => {
      syncIpvs(kernel, endpointSets[set]);
    },
    nftables: () => {
      setNftCapture(kernel, `${set === 'none' ? 'no' : set}-endpoints`);
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

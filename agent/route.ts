import { serviceChain, servicePort } from '../lib/naming/kubernetes-service.ts';
import { type Balance } from '../lib/netfilter/balance.ts';
import { type Decision } from './decide.ts';

/** What a decision asks the kernel for. */
export function toRoute({ way, vip, clusterIp, backends, affinitySeconds }: Decision): Balance['route'] {
  if (way === 'service-chain') return { way, chain: serviceChain };
  if (way === 'cluster-ip' && clusterIp !== null) {
    return { way, clusterIp: { family: vip.family, address: clusterIp, port: servicePort } };
  }
  return way === 'direct' ? { way, backends, affinitySeconds } : { way: 'passthrough' };
}

import { type ChainSelection } from '../../lib/kernel/port.ts';
import { dispatchChain } from '../../lib/netfilter/iptables/identity.ts';
import { serviceChain } from '../../lib/kube-proxy/kubernetes-service.ts';
import { dialectHints } from './choose-iptables-dialect.ts';

/** The kernel's chains: vipnat's hooks are there, and whatever comes before them or drops what is forwarded. */
const hookedChains = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];

/** kube-proxy's chains that tell its mode, where it sends connections to the Service, and how it masquerades. */
const proxyChains = ['KUBE-SERVICES', serviceChain, 'KUBE-MARK-MASQ'];

/** All chains of iptables that an assessment rests on. A host has some dozens of them, however many rules others have. */
export const neededChains: ChainSelection = {
  names: [...hookedChains, ...proxyChains, ...dialectHints],
  prefixes: [dispatchChain],
  referred: ['KUBE-SEP-'],
};

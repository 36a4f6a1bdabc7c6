import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Route } from '../../lib/netfilter/rules/balance.ts';
import { type Config, type ProxyMode } from '../../config/config.ts';
import { kubernetesService, serviceChain } from '../../lib/kube-proxy/kubernetes-service.ts';
import { countApiservers, type Decision, findShares, type VipFacts } from './decision.ts';
import { type Choice, followPath, goDirect, type Refusal } from './choices.ts';
import { type Way } from '../../config/way.ts';

/** What one way is: when it is taken, which rules it asks for, and what people read of it. */
export interface WayEntry {
  /** Its choice for a VIP, or why it cannot be had there; null for the way that is left then. Pure and total. */
  readonly choose: ((facts: VipFacts) => Choice | Refusal) | null;
  /** kube-proxy's mode whose path it follows: in other modes it has to be asked for. Null for a way that needs no kube-proxy. */
  readonly follows: ProxyMode | null;
  /** What has to be given where nothing may be read (`--offline`). */
  readonly needs: 'clusterIp' | 'endpoints' | null;
  /** Where it sends new connections. Every kind of route is rendered, and read back, in lib/netfilter/. */
  readonly toRoute: (decision: Decision) => Route;
  /** `direct to 10.0.0.11:6443`: another text is another balance. */
  readonly name: (decision: Decision) => string;
  /** What becomes of connections to the VIP: the end of a sentence that begins with its name. */
  readonly describe: (decision: Decision) => string;
}

const nowhere: Route = { kind: 'translate', backends: [], affinitySeconds: null };

/** All ways, each before those that are taken only where it cannot be had: the table of docs/design.md. */
export const wayToEntry: Readonly<Record<Way, WayEntry>> = {
  'service-chain': {
    choose: (facts) => {
      // Otherwise it is an obstacle as others are, see findObstacle.
      const isAskedForInVain = facts.mode === 'service-chain' && facts.unwanted !== null;
      return followPath(facts, 'service-chain', isAskedForInVain ? null : facts.serviceChain);
    },
    follows: 'iptables',
    needs: null,
    toRoute: () => ({ kind: 'jump', chain: serviceChain }),
    name: ({ way }) => way,
    describe: () => "goes through kube-proxy's service chain of default/kubernetes",
  },
  'cluster-ip': {
    choose: (facts) => followPath(facts, 'cluster-ip', facts.virtualServer),
    follows: 'ipvs',
    needs: 'clusterIp',
    toRoute: ({ vip: { family }, clusterIp: address }) => {
      if (address === null) return nowhere;
      return {
        kind: 'translate',
        backends: [{ family, address, port: kubernetesService.port }],
        affinitySeconds: null,
      };
    },
    name: ({ way }) => way,
    describe: ({ clusterIp }) => `goes to kube-proxy's virtual server ${clusterIp ?? ''}`,
  },
  direct: {
    choose: goDirect,
    follows: null,
    needs: 'endpoints',
    toRoute: ({ backends, affinitySeconds, weights }) => ({
      ...{ kind: 'translate', backends, affinitySeconds },
      ...(weights === undefined ? {} : { weights }),
    }),
    name: (decision) => `${decision.way} to ${listTargets(decision).join(', ')}`,
    describe: ({ backends, weights }) =>
      `goes directly to ${countApiservers(backends.length)}, ${weights === undefined ? 'chosen at random' : 'more of it to apiservers with fewer open connections'}`,
  },
  passthrough: {
    choose: null,
    follows: null,
    needs: null,
    toRoute: () => nowhere,
    name: ({ way }) => way,
    describe: () => 'stays with the VIP holder',
  },
};

/** With their shares of new connections where these differ. */
function listTargets(decision: Decision): string[] {
  const shares = decision.weights === undefined ? null : findShares(decision);
  return decision.backends.map(formatEndpoint).map((text) => {
    const share = shares?.get(text);
    return share === undefined ? text : `${text} (${Math.round(share * 100)} %)`;
  });
}

/** One after the other, as in the table. */
export const ways = Object.keys(wayToEntry) as readonly Way[];

/** What the choice of ways depends on; without a method, each apiserver is as likely. */
export type WayOptions = Pick<Config, 'mode' | 'proxyMode'> & Partial<Pick<Config, 'method'>>;

/** Those that come into question, in the same order: the one that `--mode` asks for, else all that go with kube-proxy's mode. */
export function listEligible({ mode, proxyMode, method }: WayOptions): readonly Way[] {
  if (mode !== 'auto') return [mode];
  // Where kube-proxy's rules lead, kube-proxy chooses.
  if (method === 'lc') return ['direct', 'passthrough'];
  return ways.filter((way) => [null, proxyMode].includes(wayToEntry[way].follows));
}

import type { Decision, VipFacts, ProxyPath } from '../../../../agent/decide/decision.ts';
import { type Endpoint, formatEndpoint } from '../../../../lib/net.ts';

/** What a decision comes to, in a form that is compared at once. */
export interface Outcome {
  readonly mode: Decision['mode'];
  /** The texts of all, in order. */
  readonly backends: string;
}

/** One row of the table of ways, as docs/design.md has it. */
export interface Row {
  readonly when: string;
  readonly holds: (facts: VipFacts) => boolean;
  readonly outcome: (facts: VipFacts) => Outcome;
}

/** What a decision of the product's comes to. */
export function toOutcome({ mode, backends }: Decision): Outcome {
  return { mode, backends: toTexts(backends) };
}

/** What the table says of these facts, and the row that says it: the first that holds. */
export function lookUp(facts: VipFacts): { readonly row: Row; readonly outcome: Outcome } {
  const row = table.find(({ holds }) => holds(facts));
  if (row === undefined) throw new Error(`no row of the table holds: ${JSON.stringify(facts)}`);
  return { row, outcome: row.outcome(facts) };
}

/** The table: the first row that holds decides. Written after the document, and not after the code. */
export const table: readonly Row[] = [
  {
    when: 'this host does not forward, and may not be made to',
    holds: ({ closedSwitch }) => closedSwitch !== null,
    outcome: passthrough,
  },
  {
    when: 'service-chain is asked for, and its live edge is there, wanted, and leads to no virtual IP',
    holds: ({ mode, serviceChain, unwanted }) =>
      mode === 'service-chain' && isLive(serviceChain) && !isLoop(serviceChain) && unwanted === null,
    outcome: ({ serviceChain }) => ({ mode: 'service-chain', backends: toTexts(serviceChain?.backends) }),
  },
  {
    when: 'cluster-ip is asked for, and the virtual server sends somewhere else than to a virtual IP',
    holds: ({ mode, virtualServer }) =>
      mode === 'cluster-ip' && isLive(virtualServer) && !isLoop(virtualServer),
    outcome: ({ virtualServer }) => ({ mode: 'cluster-ip', backends: toTexts(virtualServer?.backends) }),
  },
  {
    when: 'one of the two is asked for and cannot be had',
    holds: ({ mode }) => mode === 'service-chain' || mode === 'cluster-ip',
    outcome: passthrough,
  },
  { when: 'no endpoint is known', holds: ({ usable }) => usable.value.length === 0, outcome: passthrough },
  { when: 'direct is asked for', holds: ({ mode }) => mode === 'direct', outcome: direct },
  { when: 'all are down by our probes', holds: ({ usable }) => usable.isFailOpen, outcome: direct },
  { when: 'kube-proxy wants its chain gone', holds: ({ unwanted }) => unwanted !== null, outcome: direct },
  {
    when: 'the bypass has been left for one look only',
    holds: ({ wasBypassing, agreedSyncs }) => wasBypassing && agreedSyncs < 2,
    outcome: direct,
  },
  {
    when: 'kube-proxy runs in iptables mode, the live edge exists, and its backends are the usable ones',
    holds: (facts) =>
      facts.proxyMode.value === 'iptables' &&
      isLive(facts.serviceChain) &&
      isSame(facts.serviceChain?.backends, facts.usable.value),
    outcome: ({ usable }) => ({ mode: 'service-chain', backends: toTexts(usable.value) }),
  },
  {
    when: 'kube-proxy runs in ipvs mode, the virtual server exists, and its backends are the usable ones',
    holds: (facts) =>
      facts.proxyMode.value === 'ipvs' &&
      isLive(facts.virtualServer) &&
      isSame(facts.virtualServer?.backends, facts.usable.value),
    outcome: ({ usable }) => ({ mode: 'cluster-ip', backends: toTexts(usable.value) }),
  },
  { when: 'everything else', holds: () => true, outcome: direct },
];

/**
 * Whether this is the bypass, which two looks have to end: direct although kube-proxy offers a path that nothing but
 * its backends, the last look, or the probes speak against.
 */
export function isBypass(facts: VipFacts): boolean {
  const { mode, closedSwitch, usable, unwanted, wasBypassing, agreedSyncs } = facts;
  if (closedSwitch !== null || mode !== 'auto' || usable.value.length === 0) return false;
  if (usable.isFailOpen) return true;
  if (unwanted !== null || findPath(facts) === null) return false;
  return !isAgreed(facts) || (wasBypassing && agreedSyncs < 2);
}

/** Whether kube-proxy offers a path in its mode that leads to the usable ones. */
export function isAgreed(facts: VipFacts): boolean {
  const path = findPath(facts);
  return path !== null && isSame(path.backends, facts.usable.value);
}

function findPath({ proxyMode, serviceChain, virtualServer }: VipFacts): ProxyPath | null {
  return { iptables: serviceChain, ipvs: virtualServer, nftables: null, none: null }[proxyMode.value];
}

function isLive(path: ProxyPath | null): boolean {
  return path !== null && path.backends.length > 0;
}

function isLoop(path: ProxyPath | null): boolean {
  return (path?.loop ?? null) !== null;
}

function passthrough(): Outcome {
  return { mode: 'passthrough', backends: '' };
}

function direct({ usable }: VipFacts): Outcome {
  return { mode: 'direct', backends: toTexts(usable.value) };
}

function isSame(left: readonly Endpoint[] = [], right: readonly Endpoint[] = []): boolean {
  return toTexts(left) === toTexts(right);
}

function toTexts(endpoints: readonly Endpoint[] = []): string {
  return endpoints.map(formatEndpoint).toSorted().join(' ');
}

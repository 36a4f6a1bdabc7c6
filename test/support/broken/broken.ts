import type { SourceChange } from './source-change.ts';

/** A broken vipnat, and tests of the gate of which at least one has to fail. */
export interface Broken extends SourceChange {
  /** `PART FILES`: a part, and a pattern of the paths of its files. Behaviour comes first, texts last. */
  readonly caughtBy: readonly `${string} ${string}`[];
}

const usable = {
  file: 'agent/health/usable.ts',
  from: "health.get(formatEndpoint(endpoint))?.state ?? 'ready';",
} as const;

/** What the gate has to find. `scripts/broken` shows that it does. */
export const broken = {
  masquerade: {
    name: 'forgets to masquerade',
    file: 'lib/iptables/vip-rules.ts',
    from: "balances.filter(({ masquerade }) => masquerade === 'own');",
    to: "balances.filter(({ masquerade }) => masquerade === 'none');",
    caughtBy: ['netns netns/ways', 'unit lib/iptables/diff-render'],
  },
  hook: {
    name: 'appends its hook instead of inserting it first',
    file: 'lib/iptables/diff.ts',
    from: "insert: '-I'",
    to: "insert: '-A'",
    caughtBy: ['netns netns/drift', 'unit lib/iptables/diff'],
  },
  dead: {
    name: 'keeps dead apiservers',
    ...usable,
    to: "health.get(formatEndpoint(endpoint))?.state === 'draining' ? 'draining' : 'ready';",
    caughtBy: ['netns netns/health', 'unit agent/health/usable'],
  },
  chain: {
    name: "never lets kube-proxy's chain go",
    file: 'agent/decide/mode.ts',
    from: '  if (unwanted !== null) ',
    to: "  if (unwanted !== null && facts.mode !== 'auto') ",
    caughtBy: ['netns netns/pinned-chain', 'property property/pinned-chain'],
  },
  stuck: {
    name: 'resets no stuck connection',
    file: 'agent/flows.ts',
    from: "done !== 'all' && done !== staleConnections)\n",
    to: "done !== 'all' && done !== staleConnections && this.#isStopped)\n",
    caughtBy: ['netns netns/health', 'unit agent/flows'],
  },
  draining: {
    name: 'takes draining apiservers for ready',
    ...usable,
    to: "health.get(formatEndpoint(endpoint))?.state === 'dead' ? 'dead' : 'ready';",
    caughtBy: ['netns netns/drain.test', 'unit agent/loop-health', 'unit agent/health/usable'],
  },
  alive: {
    name: 'does not renew what says that its balancer lives',
    file: 'balancer/sync.ts',
    from: '    await this.#programmer.renew();\n',
    to: '',
    caughtBy: ['unit balancer/sync', 'unit balancer/sync-table-life'],
  },
  ranges: {
    name: 'ignores loadBalancerSourceRanges',
    file: 'balancer/services/frontend.ts',
    from: 'const ranges = readSourceRanges(service.spec.loadBalancerSourceRanges)',
    to: 'const ranges = readSourceRanges(null)',
    caughtBy: ['netns netns/services.test', 'unit balancer/services/frontend'],
  },
  gone: {
    name: "keeps a gone pod's connections in mind",
    file: 'balancer/table/shares.ts',
    from: '      if (!isLeft(service)) this.#cleaner.add(',
    to: '      if (!isLeft(service) && balances.length === 0) this.#cleaner.add(',
    caughtBy: ['model model/rollouts'],
  },
  twice: {
    name: 'gives one address twice',
    file: 'controller/allocate/choose-address.ts',
    from: 'return problem === null ? null : taken(problem);',
    to: 'return problem === null || service.spec.type ? null : taken(problem);',
    caughtBy: ['unit unit/controller/(allocate|kinds)', 'model model/controller/controller'],
  },
  finalizer: {
    name: 'leaves its finalizer',
    file: 'controller/kinds/allocations.ts',
    from: '  if (at < 0) return null;\n',
    to: '  if (at <= known.length) return null;\n',
    caughtBy: ['unit unit/controller/kinds', 'model model/controller/controller'],
  },
  priority: {
    name: 'writes priorities of keepalived the wrong way round',
    file: 'lib/keepalived/write.ts',
    from: 'Math.max(1, highestPriority - step * place)',
    to: 'Math.min(highestPriority, step * (place + 1))',
    caughtBy: ['netns netns/service-seats.test', 'unit balancer/seats/plan'],
  },
} as const satisfies Readonly<Record<string, Broken>>;

/** Broken versions of the controller and of the balancer, and which complaint belongs to each. */
import type { MachinePlace } from './machine.ts';
import type { CandidateNodes } from '../../../../controller/cache/nodes.ts';
import { pod } from '../../../../controller/kinds/pod-gate.ts';
import { believe as decideFrom, believeNodes } from '../believe-nodes.ts';
import type { ClusterView } from '../../../../controller/cache/cache.ts';
import { EarlyEndpoints, ServiceIndex } from '../../../../balancer/services/index.ts';
import { Drains, FlowCleaner } from '../../../../balancer/table/stale-flows.ts';
import type { ServiceSlice } from '../../../../lib/api/service.ts';
import { earlySliceKind } from '../../../../controller/kinds/endpoints.ts';
import { nothing } from '../../../../controller/step.ts';
import { noOutages } from '../../../../balancer/services/backends.ts';
import { SlowStarts } from '../../../../balancer/services/follow.ts';

export interface Mutant {
  readonly complaint: RegExp;
  /** Breaks the product, and answers what mends it. */
  readonly apply?: () => () => void;
  readonly wrapNodes?: MachinePlace['wrapNodes'];
  /** Faults that show it. */
  readonly favored?: readonly string[];
}

/** What has another function in place of a method, until what it answers is called. */
function replace<T extends object, Name extends keyof T>(
  target: T,
  name: Name,
  make: (was: T[Name]) => T[Name],
): () => () => void {
  return () => {
    const was = target[name];
    if (was === undefined) throw new TypeError(`a field, no method: ${String(name)}`);
    target[name] = make(was);
    return () => {
      target[name] = was;
    };
  };
}

/** Gates that are decided with nodes that have done more than they have. */
function believe(change: (candidates: CandidateNodes) => Partial<CandidateNodes>): () => () => void {
  return replace(
    pod as { next: typeof pod.next },
    'next',
    (next) => (key, world: ClusterView) =>
      decideFrom(
        (said) => next(key, said),
        (said) => believeNodes(said, change(said.candidates)),
        world,
      ),
  );
}

export const mutants: Readonly<Record<string, Mutant>> = {
  'opens gates at once': {
    apply: believe(() => ({ judge: (...[, , version]) => (version === null ? 'missing' : 'done') })),
    complaint: /^the gate of .* has sent no connection/,
  },
  'opens gates by the word of one balancer': {
    apply: believe((candidates) => ({
      judge: (pool, service, version) => {
        const state = candidates.judge(pool, service, version);
        const behind = candidates.listDelaying(pool, service, version ?? '').length;
        return state === 'missing' && behind < candidates.list(pool).length ? 'done' : state;
      },
    })),
    complaint: /^the gate of .* has sent no connection/,
  },
  'takes connections away from who ends too late': {
    apply: replace(
      EarlyEndpoints.prototype,
      'merge',
      (merge) =>
        function late(this: EarlyEndpoints, ...given: Parameters<typeof merge>) {
          return merge.apply(this, given).map(ignoreEnds);
        },
    ),
    complaint: /^new connections of .* after it was told|^\S+ is called drained/,
  },
  'cuts connections of who drains': {
    apply: replace(
      Drains.prototype,
      'take',
      (take) =>
        function cutting(this: Drains, service: string, balances: Parameters<typeof take>[1]) {
          take.call(
            this,
            service,
            balances.map((one) => ({ ...one, drainMs: Math.min(one.drainMs ?? 500, 500) })),
          );
        },
    ),
    // A pod of weight 0 drains, and is well.
    complaint: /^an open connection of .* which (?:drains|is well), is forgotten/,
  },
  'keeps connections to addresses that are given again': {
    apply: () => {
      const breaks = [
        replace(
          FlowCleaner.prototype,
          'add',
          (add) =>
            function kept(
              this: FlowCleaner,
              flows: Parameters<typeof add>[0],
              why?: Parameters<typeof add>[1],
            ) {
              if (why !== undefined && why !== 'which is gone') add.call(this, flows, why);
            },
        ),
        replace(FlowCleaner.prototype, 'sweep', () => () => undefined),
      ];
      const mends = breaks.map((one) => one());
      return () => {
        for (const mend of mends) mend();
      };
    },
    complaint: /^an open connection of .* which is gone/,
  },
  'keeps early endpoints that Kubernetes calls not ready': {
    apply: replace(
      EarlyEndpoints.prototype,
      'takeSlice',
      (takeSlice) =>
        function forgetting(this: EarlyEndpoints, service: string, slice: ServiceSlice) {
          const endpoints = (slice.endpoints ?? []).map((one) => ({
            ...one,
            conditions: { ...one.conditions, ready: false },
          }));
          takeSlice.call(this, service, { ...slice, endpoints });
        },
    ),
    // Else the controller takes its word back as soon as Kubernetes does.
    favored: ['stops a controller for a while', 'cuts a controller off'],
    complaint: /^new connections of .* after it was told|^\S+ is called drained/,
  },
  'does not hear of evictions': {
    apply: replace(earlySliceKind as { next: typeof earlySliceKind.next }, 'next', (next) => (key, world) => {
      const isSure = ({ type }: { readonly type: string }) => type !== 'DisruptionTarget';
      const pods = [...world.pods].map(([name, one]) => {
        const conditions = (one.status?.conditions ?? []).filter(isSure);
        return [name, { ...one, status: { ...one.status, conditions } }] as const;
      });
      return next(key, { ...world, pods: new Map(pods) });
    }),
    complaint: /^the shares of/,
  },
  'never empties an early slice': {
    apply: replace(earlySliceKind as { next: typeof earlySliceKind.next }, 'next', (next) => (key, world) => {
      const step = next(key, world);
      return step.does === 'write' && step.write.method === 'DELETE' ? nothing : step;
    }),
    complaint: /^the early EndpointSlice/,
  },
  'keeps the pods of a dead node': {
    wrapNodes: (health) => ({ outages: noOutages, watch: health.watch.bind(health) }),
    favored: ['powers a node off'],
    complaint: /^new connections of .* whose node is off/,
  },
  'keeps the pods of a node that shuts down': {
    apply: replace(
      ServiceIndex.prototype,
      'takeNodes',
      (take) =>
        function deaf(this: ServiceIndex, changes: Parameters<typeof take>[0]) {
          const well = { ending: null, isUnresponsive: false };
          return take.call(
            this,
            changes.map((change) => ({ ...change, after: change.after && { ...change.after, ...well } })),
          );
        },
    ),
    favored: ['begins work on a node'],
    complaint: /^new connections of .* whose node ends|^\S+ is called drained/,
  },
  'takes pods of a silent node out without a witness': {
    wrapNodes: (health, silences) => ({
      get outages() {
        const out = new Set(
          [...silences].flatMap(([address, count]) => (count < 2 ? [] : [nameNode(address)])),
        );
        return out.size === 0 ? noOutages : { ...noOutages, out };
      },
      watch: health.watch.bind(health),
    }),
    favored: ['cuts a node off'],
    // It may be left out to the quiet.
    complaint: /^no new connections of .* whose node is well|^the shares of/,
  },
  'weighs nobody': {
    apply: replace(
      SlowStarts.prototype,
      'weigh',
      (weigh) =>
        function even(this: SlowStarts, service: string, balanced: Parameters<typeof weigh>[1]) {
          return weigh.call(this, service, balanced === null ? null : { ...balanced, weights: new Map() });
        },
    ),
    complaint: /^the shares of/,
  },
  'leaves connections to pods that went while no balancer ran': {
    apply: replace(FlowCleaner.prototype, 'sweep', () => () => undefined),
    favored: ['kills a balancer'],
    complaint: /^an open connection of .* which is gone/,
  },
  'never ends a slow start': {
    apply: replace(
      SlowStarts.prototype,
      'weigh',
      (weigh) =>
        function slow(this: SlowStarts, service: string, balanced: Parameters<typeof weigh>[1]) {
          if (balanced === null) return weigh.call(this, service, balanced);
          const { metadata } = balanced.service;
          // Of each Service: few ask for one, and still have it at a quiet.
          const annotations = { ...metadata.annotations, 'vipnat.io/slow-start': '1h' };
          const weighed = weigh.call(this, service, {
            ...balanced,
            service: { ...balanced.service, metadata: { ...metadata, annotations } },
          });
          return weighed === null ? null : { ...weighed, service: balanced.service };
        },
    ),
    complaint: /^the shares of/,
  },
};

/** `10.0.9.2` is that of n1. */
function nameNode(address: string): string {
  return `n${Number(address.split('.').at(-1)) - 1}`;
}

/** Whoever ends is as ready until it is gone. */
function ignoreEnds(slice: ServiceSlice): ServiceSlice {
  const conditions = { ready: true, serving: true, terminating: false };
  const endpoints = (slice.endpoints ?? []).map((endpoint) =>
    endpoint.conditions?.terminating === true ? { ...endpoint, conditions } : endpoint,
  );
  return { ...slice, endpoints };
}

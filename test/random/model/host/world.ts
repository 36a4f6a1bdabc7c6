import {
  type ReconcileState,
  type Assessment,
  emptyState,
  type Candidates,
} from '../../../../agent/decide/decision.ts';
import type { Transaction } from '../../../../lib/kernel/port.ts';
import type { KernelState } from './kernels.ts';
import type { ProxyWish } from './kube-proxy.ts';
import type { HealthState } from '../../../../agent/health/judge.ts';
import { type EndpointSet, three, endpointSets, clusterIp } from './small-world.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import type { HealthView } from '../../../../agent/health/usable.ts';
import type { ApiView } from '../../../../agent/api.ts';

/** Something that a process is about to do to the world, after a look. */
export type Effect =
  | { readonly kind: 'save'; readonly endpoints: ReconcileState['endpoints'] }
  | { readonly kind: 'write'; readonly transaction: Transaction };

/** One process of the agent's: it ends with a crash, and the next one knows the world only. */
interface Process {
  readonly memory: ReconcileState;
  readonly hasLooked: boolean;
  /** What the look found to do and is not done yet. */
  readonly todo: readonly Effect[];
  /** What the last look decided. */
  readonly decided: Pick<Assessment['decisions'][number], 'mode' | 'backends'> | null;
  /** What the last look saw, while nothing was written since: a death is answered from it. */
  readonly seen: ({ readonly kernel: KernelState } & Pick<Assessment, 'observation' | 'candidates'>) | null;
}

/** The small world. Never changed in place. */
export interface World {
  readonly kernel: KernelState;
  readonly proxy: ProxyWish;
  /** Whether kube-proxy answers when it is asked for its mode. */
  readonly isProxyAnswering: boolean;
  /** Of the three apiservers, as the probes have it. */
  readonly health: readonly HealthState[];
  /** What the Kubernetes API lists, or listed when it was last heard; null where this process never heard it. */
  readonly api: { readonly set: EndpointSet; readonly isAnswered: boolean } | null;
  readonly saved: ReconcileState['endpoints'];
  readonly process: Process;
}

export function startProcess(memory: ReconcileState = emptyState): Process {
  return { memory, hasLooked: false, todo: [], decided: null, seen: null };
}

/** The same text for worlds that can go on in the same ways only: what is just told to people does not count. */
export function toKey({ kernel, proxy, isProxyAnswering, health, api, saved, process }: World): string {
  const { memory, hasLooked, todo, decided, seen } = process;
  return JSON.stringify([
    [kernel.id, proxy.mode, proxy.set, isProxyAnswering, health, api, listEndpoints(saved)],
    [hasLooked, todo.map(toEffectKey), decided?.mode, decided?.backends.map(formatEndpoint), seen?.kernel.id],
    toMemoryKey(memory),
    seen?.candidates.map(({ candidates }) => toCandidatesKey(candidates)),
  ]);
}

function toCandidatesKey({ value, fallbackEndpoints }: Candidates): string {
  return `${value.map(formatEndpoint).join()} ${fallbackEndpoints.map(formatEndpoint).join()}`;
}

/** The same text for memories that decide in the same way. */
export function toMemoryKey(memory: ReconcileState): string {
  const { endpoints, previousEndpoints, affinity, api, proxyOnly, vips, renderings } = memory;
  return JSON.stringify([
    [listEndpoints(endpoints), affinity, api?.isCurrent, api?.endpoints.ipv4?.value.map(formatEndpoint)],
    [proxyOnly.ipv4?.map(formatEndpoint), [...renderings]],
    previousEndpoints.ipv4?.map(formatEndpoint),
    // Whether it is two or more makes no difference to anything.
    [...vips.values()].map(({ isBypass, agreedSyncs }) => [isBypass, Math.min(2, agreedSyncs)]),
  ]);
}

function toEffectKey(effect: Effect): string {
  return effect.kind === 'save'
    ? listEndpoints(effect.endpoints).join()
    : toTransactionKey(effect.transaction);
}

export function toTransactionKey({ family, dialect, input }: Transaction): string {
  return `${family} ${dialect} ${input}`;
}

/** The texts of what is known of the VIP's family. */
export function listEndpoints(endpoints: ReconcileState['endpoints']): string[] {
  return (endpoints.ipv4?.value ?? []).map(formatEndpoint);
}

export function toHealthView({ health }: Pick<World, 'health'>): HealthView {
  return new Map(
    three.map((endpoint, index) => {
      const state = health[index] ?? 'ready';
      return [formatEndpoint(endpoint), { state, reason: `is ${state}`, staleConnections: 'none' as const }];
    }),
  );
}

/** What the process has of the Kubernetes API: it is followed from the first look on. */
export function toApiView({ api, process }: Pick<World, 'api' | 'process'>): ApiView | null {
  if (api === null || !process.hasLooked) return null;
  const found = { value: endpointSets[api.set], seenIn: "the API's EndpointSlice kubernetes" };
  return {
    endpoints: { ipv4: found },
    clusterIps: { ipv4: clusterIp.address },
    affinitySeconds: null,
    refused: [],
    isCurrent: api.isAnswered,
  };
}

export function answerMode(world: Pick<World, 'proxy' | 'isProxyAnswering'>): string | null {
  const { proxy, isProxyAnswering } = world;
  return isProxyAnswering && proxy.mode !== 'none' ? proxy.mode : null;
}

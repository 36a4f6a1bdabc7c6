/**
 * How long it takes until no node sends new connections to a pod that ends.
 *
 * Goal: people choose how long their pods serve on by a figure of their own cluster.
 * Tension: a pod's deletionTimestamp is in whole seconds, and by the clock of another host.
 * Compromise: time runs from when this controller saw the deletion, by its own clock. What was deleted before it led is not timed. So the time
 * before is missing: milliseconds while watches work.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { isReadyButForUs } from '../../lib/services/pod-gates.ts';
import { listGates, type Pod } from '../../lib/services/pods.ts';
import { readPodWeight } from '../../lib/services/weights.ts';
import { toEndpointText } from '../cache/selection.ts';
import { type World } from '../cache/world.ts';
import { findClaims } from '../kinds/claims.ts';
import { listEndpointsOf } from '../kinds/endpoints.ts';
import { isServed } from '../cache/object-parts.ts';

/** What it needs of the world. */
export interface DrainTimesPorts {
  readonly clock: Clock;
  /** All that is known now. */
  readonly view: () => World;
  /** Told of each pod, once, by its UID. */
  readonly onDrained: (seconds: number, pod: string) => void;
}

/** More of them at a time tell no more, and each look goes through the endpoints of the Services of each. */
const maxPods = 100;

/** Reports of a thousand nodes come one by one. */
const gatherMs = 20;

/** What has taken so long is not timed on: it is above all buckets. */
const limitMs = 120_000;

interface Ending {
  readonly key: string;
  readonly uid: string;
  readonly seenMs: number;
  /** Services that send connections to it: in how many endpoints, and the version in which all of these end; null before. */
  readonly services: Map<string, { readonly endpoints: number; readonly version: string | null }>;
}

/** Times pods that end, from the first `take` to `stop`. */
export class DrainTimes {
  readonly #ports: DrainTimesPorts;
  readonly #uidToEnding = new Map<string, Ending>();
  #cancel: Cancel | null = null;
  #isStopped = false;

  constructor(ports: DrainTimesPorts) {
    this.#ports = ports;
  }

  /** A pod has changed, and the world knows it. */
  take({ key, before, after }: Change<Pod>): void {
    if (before === null || after === null || before.metadata.uid !== after.metadata.uid) return;
    if (isEnding(before) || !isEnding(after)) return;
    const { clock, view } = this.#ports;
    const world = view();
    if (!isTimed(before, world.settings.gateTypes) || this.#uidToEnding.size >= maxPods) return;
    const services = listServices(after, key, world);
    if (services.size === 0) return;
    this.#uidToEnding.set(after.metadata.uid, {
      key,
      uid: after.metadata.uid,
      seenMs: clock.now(),
      services,
    });
    this.look();
  }

  /** Something has changed that pods may wait for. Cheap while none ends. */
  look(): void {
    if (this.#isStopped || this.#cancel !== null || this.#uidToEnding.size === 0) return;
    this.#cancel = this.#ports.clock.schedule(gatherMs, () => {
      this.#cancel = null;
      this.#check();
    });
  }

  /** Times nothing any more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
    this.#uidToEnding.clear();
  }

  #check(): void {
    const { clock, view, onDrained } = this.#ports;
    const world = view();
    for (const [uid, ending] of this.#uidToEnding) {
      const tookMs = clock.now() - ending.seenMs;
      const state = judge(ending, world);
      const isOver = tookMs >= limitMs;
      if (state === 'waits' && !isOver) continue;
      this.#uidToEnding.delete(uid);
      if (state !== 'untold') onDrained(tookMs / 1000, uid);
    }
  }
}

function isEnding({ metadata }: Pod): boolean {
  return typeof metadata.deletionTimestamp === 'string';
}

/** Of others, early EndpointSlices may not say that they end. */
function isTimed(pod: Pod, gateTypes: ReadonlySet<string>): boolean {
  const isFollowed = listGates(pod, gateTypes).length > 0 || readPodWeight(pod.metadata.annotations) !== null;
  return isFollowed && isReadyButForUs(pod, gateTypes);
}

/** The Services with an address whose nodes send connections to a pod until it ends. Where all pods are published, they do so until it is gone. */
function listServices(pod: Pod, key: string, world: World): Ending['services'] {
  const keys = [...(world.podToServices.get(key) ?? [])];
  return new Map(
    keys.flatMap((name) => {
      const service = world.services.get(name);
      const isPublished = service?.spec.publishNotReadyAddresses === true;
      if (service === undefined || isPublished || listPools(name, world).length === 0) return [];
      const endpoints = listEndpointsOf(pod, service, world).length;
      return endpoints === 0 ? [] : [[name, { endpoints, version: null }] as const];
    }),
  );
}

/** The pools of a Service's addresses whose nodes report early EndpointSlices. None for one that is not served. */
function listPools(key: string, world: World): readonly string[] {
  const { services, candidates, settings } = world;
  const service = services.get(key);
  if (service === undefined || !isServed(service, settings.isDefaultClass)) return [];
  const pools = new Set(findClaims(service, world).held.map(({ virtualIp }) => virtualIp.spec.pool));
  return [...pools].filter((pool) => candidates.list(pool).length > 0 && !candidates.isWithoutEarly(pool));
}

/** `untold`: no node is left that could report it, or the pod went before the controller wrote that it ends. */
function judge(ending: Ending, world: World): 'waits' | 'done' | 'untold' {
  const { services, uid, key } = ending;
  for (const [name, { endpoints, version }] of services)
    if (version === null) services.set(name, { endpoints, version: findEnd(name, uid, endpoints, world) });
  const told = [...services].map(([name, { version }]) => ({ version, pools: listPools(name, world) }));
  const awaited = told.filter(({ pools }) => pools.length > 0);
  if (awaited.length === 0) return 'untold';
  const isGone = world.pods.get(key)?.metadata.uid !== uid;
  if (awaited.some(({ version }) => version === null)) return isGone ? 'untold' : 'waits';
  const isDone = awaited.every(({ version, pools }) =>
    pools.every((pool) => world.candidates.haveProgrammed(pool, 'earlyslices', version ?? '')),
  );
  return isDone ? 'done' : 'waits';
}

/** The version since which all endpoints of a pod end in a Service's early EndpointSlices; null where they do not. */
function findEnd(service: string, uid: string, count: number, world: World): string | null {
  const { serviceToSlices, earlySlices, sliceToSince } = world;
  const found = [...(serviceToSlices.get(service) ?? [])].flatMap((key) => {
    const slice = earlySlices.get(key);
    const own = (slice?.endpoints ?? []).filter(({ targetRef }) => targetRef?.uid === uid);
    return own.map((endpoint) => ({
      isEnding: endpoint.conditions?.terminating === true,
      since:
        slice === undefined ? null : (sliceToSince.get(key)?.get(toEndpointText(endpoint, slice)) ?? null),
    }));
  });
  if (found.length < count || found.some(({ isEnding: ends, since }) => !ends || since === null)) return null;
  const versions = found.map(({ since }) => BigInt(since ?? '0'));
  return String(versions.reduce((last, one) => (one > last ? one : last)));
}

import type { Clock, Cancel } from '../../lib/clock.ts';
import { type ClusterView, findMetadata } from '../cache/cache.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import { type Pod, listGates, readPodWeight, isReadyButForUs } from '../../lib/api/endpoints.ts';
import { listEndpointsOf } from '../kinds/endpoints.ts';
import { isServed, describeContest } from '../cache/parts.ts';
import { findAllocations } from '../kinds/allocations.ts';
import { toEndpointText } from '../cache/nodes.ts';
import type { StepKey, Known } from '../cache/known.ts';
import type { Regarding, EventRecorder } from '../../lib/telemetry/events.ts';
import { getKind } from '../kinds/kinds.ts';
import { type ErrorCode, type VipnatError, findErrorCode } from '../../lib/errors.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { firstPools } from '../../lib/api/vipnat.ts';
import { type Unreadable, describeUnreadable } from '../../lib/kubernetes/client.ts';
import { type StepEvent, formatKey } from '../step.ts';
import type { Execution } from '../engine.ts';

/**
 * How long it takes until no node sends new connections to a pod that ends.
 *
 * Goal: people choose how long their pods serve on by a figure of their own cluster.
 * Tension: a pod's deletionTimestamp is in whole seconds, and by the clock of another host.
 * Compromise: time runs from when this controller saw the deletion, by its own clock. What was deleted before it led is not timed. So the time
 * before is missing: milliseconds while watches work.
 */

/** Its dependencies. */
interface DrainTimesPorts {
  readonly clock: Clock;
  /** All that is known now. */
  readonly view: () => ClusterView;
  /** Called for each pod, once, by its UID. */
  readonly onDrained: (seconds: number, pod: string) => void;
}

/** More of them at a time say no more, and each check goes through the endpoints of the Services of each. */
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

  /** A pod has changed, and the cache knows it. */
  take({ key, before, after }: Change<Pod>): void {
    if (before === null || after === null || before.metadata.uid !== after.metadata.uid) return;
    if (isEnding(before) || !isEnding(after)) return;
    const { clock } = this.#ports;
    const view = this.#ports.view();
    if (!isTimed(before, view.settings.gateTypes) || this.#uidToEnding.size >= maxPods) return;
    const services = listServices(after, key, view);
    if (services.size === 0) return;
    this.#uidToEnding.set(after.metadata.uid, {
      key,
      uid: after.metadata.uid,
      seenMs: clock.now(),
      services,
    });
    this.sync();
  }

  /** Something has changed that pods may wait for. Cheap while none ends. */
  sync(): void {
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
    const { clock, onDrained } = this.#ports;
    const view = this.#ports.view();
    for (const [uid, ending] of this.#uidToEnding) {
      const tookMs = clock.now() - ending.seenMs;
      const state = judge(ending, view);
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

/** Of other pods, early EndpointSlices may not say that they end. */
function isTimed(pod: Pod, gateTypes: ReadonlySet<string>): boolean {
  const isFollowed = listGates(pod, gateTypes).length > 0 || readPodWeight(pod.metadata.annotations) !== null;
  return isFollowed && isReadyButForUs(pod, gateTypes);
}

/** The Services with an address whose nodes send connections to a pod until it ends. Where all pods are published, they do so until it is gone. */
function listServices(pod: Pod, key: string, view: ClusterView): Ending['services'] {
  const keys = [...(view.podToServices.get(key) ?? [])];
  return new Map(
    keys.flatMap((name) => {
      const service = view.services.get(name);
      const isPublished = service?.spec.publishNotReadyAddresses === true;
      if (service === undefined || isPublished || listPools(name, view).length === 0) return [];
      const endpoints = listEndpointsOf(pod, service, view).length;
      return endpoints === 0 ? [] : [[name, { endpoints, version: null }] as const];
    }),
  );
}

/** The pools of a Service's addresses whose nodes report early EndpointSlices. None for one that is not served. */
function listPools(key: string, view: ClusterView): readonly string[] {
  const { services, candidates, settings } = view;
  const service = services.get(key);
  if (service === undefined || !isServed(service, settings.isDefaultClass)) return [];
  const pools = new Set(findAllocations(service, view).held.map(({ virtualIp }) => virtualIp.spec.pool));
  return [...pools].filter((pool) => candidates.list(pool).length > 0 && !candidates.isWithoutEarly(pool));
}

/** `untold`: no node is left that could report it, or the pod went before the controller wrote that it ends. */
function judge(ending: Ending, view: ClusterView): 'waits' | 'done' | 'untold' {
  const { services, uid, key } = ending;
  for (const [name, { endpoints, version }] of services)
    if (version === null) services.set(name, { endpoints, version: findEnd(name, uid, endpoints, view) });
  const reported = [...services].map(([name, { version }]) => ({ version, pools: listPools(name, view) }));
  const awaited = reported.filter(({ pools }) => pools.length > 0);
  if (awaited.length === 0) return 'untold';
  const isGone = view.pods.get(key)?.metadata.uid !== uid;
  if (awaited.some(({ version }) => version === null)) return isGone ? 'untold' : 'waits';
  const isDone = awaited.every(({ version, pools }) =>
    pools.every((pool) => view.candidates.haveProgrammed(pool, 'earlyslices', version ?? '')),
  );
  return isDone ? 'done' : 'waits';
}

/** The version since which all endpoints of a pod end in a Service's early EndpointSlices; null where they do not. */
function findEnd(service: string, uid: string, count: number, view: ClusterView): string | null {
  const { serviceToSlices, earlySlices, sliceToSince } = view;
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

/** The object that events of a key are about; null where it is not known, or nothing is reported of the kind. */
function toRegarding({ kind, key }: StepKey, known: Known): Regarding | null {
  const { source, subject } = getKind(kind);
  const { uid } = findMetadata(known, source, key);
  if (subject === null || uid === undefined) return null;
  const at = key.indexOf('/');
  const namespace = at < 0 ? {} : { namespace: key.slice(0, at) };
  return { ...subject, ...namespace, name: key.slice(at + 1), uid };
}

/** Longer than from one attempt at the Lease to the next. */
const apiAwayMs = 30_000;

const outcomeToCode = new Map<string, ErrorCode>([
  ['forbidden', 'API_FORBIDDEN'],
  ['unreachable', 'API_UNREACHABLE'],
]);

/** What the controller reports: lines of its log, and events about Services, addresses and pools. */
export class ControllerLog {
  readonly #logger: Logger;
  readonly #events: EventRecorder;
  readonly #clock: Clock;
  /** When the Lease could not be read or written the last time. */
  #leaseFailedAt = -Infinity;
  /** Kinds of objects that cannot be followed. */
  readonly #lost = new Set<string>();
  /** Why pools of the manifest could not be created, as it was reported last. */
  #poolsProblem = '';
  readonly #failures: ReportedFailures;

  constructor(logger: Logger, events: EventRecorder, clock: Clock) {
    this.#logger = logger;
    this.#events = events;
    this.#clock = clock;
    this.#failures = new ReportedFailures(clock);
  }

  /** This process leads. */
  elected(): void {
    this.#logger.info('this controller leads: it reads all objects, then it takes steps');
  }

  /** All objects are known. */
  begun({ services, virtualIps, pools }: ClusterView): void {
    const counts = `${pools.size} pools, ${virtualIps.size} virtual IPs and ${services.size} Services`;
    this.#logger.info(`this controller knows ${counts}, and takes steps from now on`);
  }

  /** A pool of the manifest was created. */
  poolCreated(pool: string): void {
    this.#logger.info(`AddressPool/${pool}: created, as the ConfigMap ${firstPools} asks for it`);
  }

  /** A pool of the manifest was there before. */
  poolExists(pool: string): void {
    const remedy = `To change its addresses, run: kubectl edit addresspool ${pool}`;
    this.#logger.info(
      `AddressPool/${pool}: it exists, so the ConfigMap ${firstPools} changes nothing. ${remedy}`,
    );
  }

  /** Pools of the manifest could not be created. */
  poolsWait(detail: string): void {
    const line = `the pools of the ConfigMap ${firstPools} are not created yet: ${detail}. vipnat tries again`;
    const level = this.#poolsProblem === detail ? 'debug' : 'warn';
    this.#poolsProblem = detail;
    this.#logger[level](line, { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** It leads no more. */
  deposed(): void {
    this.#lost.clear();
    this.#logger.warn('this controller leads no more, and writes nothing: it could not renew its Lease');
  }

  /** Another one leads. */
  waits(leader: string): void {
    this.#logger.info(`${leader} leads. This controller waits`);
  }

  /** The Lease cannot be read or written. */
  leaseProblem({ outcome, detail }: { readonly outcome: string; readonly detail: string }): void {
    const level = this.#isApiAway ? 'debug' : 'warn';
    this.#leaseFailedAt = this.#clock.now();
    const code = outcomeToCode.get(outcome) ?? 'API_ANSWER_UNEXPECTED';
    this.#logger[level](`this controller cannot use its Lease: ${detail}. It keeps trying`, { code });
  }

  get #isApiAway(): boolean {
    return this.#clock.now() - this.#leaseFailedAt < apiAwayMs;
  }

  /** A kind of objects cannot be followed. */
  lost(kind: string, { code, message }: VipnatError): void {
    const level = this.#lost.has(kind) ? 'debug' : 'warn';
    this.#lost.add(kind);
    this.#logger[level](`vipnat cannot follow ${kind}s: ${message}. It keeps trying`, { code });
  }

  /** An object cannot be read. */
  unreadable(kind: string, unreadable: Unreadable): void {
    this.#logger.warn(describeUnreadable(kind, unreadable), { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** It is followed. */
  followed(kind: string): void {
    if (this.#lost.delete(kind)) this.#logger.info(`vipnat follows ${kind}s again`);
    else this.#logger.debug(`vipnat follows ${kind}s`);
  }

  /** A step is done. */
  written(key: StepKey, event: StepEvent | null, view: ClusterView): void {
    this.#failures.end(formatKey(key));
    if (event === null) {
      this.#logger.debug(`${formatKey(key)}: one step is done`);
      return;
    }
    const { type, reason, message } = event;
    this.#logger[type === 'Normal' ? 'info' : 'warn'](`${formatKey(key)}: ${message.replace(/\.$/, '')}`);
    const regarding = toRegarding(key, view);
    if (regarding !== null) this.#events.record(reason, message, regarding);
  }

  /**
   * A step is not done. While the Lease cannot be used the API is away, and the Lease says so. A webhook that does not answer, or an
   * apiserver that has too much to do, fails writes one by one.
   */
  failed(key: StepKey, { result, detail }: Execution, failures: number, view: ClusterView): void {
    const isOfApi = result === 'refused' || (result === 'unknown' && !this.#isApiAway);
    const isNotified = isOfApi && this.#failures.shouldReport(formatKey(key), failures);
    const code = result === 'refused' ? 'API_FORBIDDEN' : 'API_UNREACHABLE';
    const line = `${formatKey(key)}: ${detail}. vipnat tries again`;
    this.#logger[isNotified ? 'warn' : 'debug'](line, result === 'stale' ? {} : { code });
    const regarding = toRegarding(key, view);
    if (isNotified && regarding !== null) this.#events.record('WriteFailed', `${detail}.`, regarding);
  }

  /** What is written does not stay. */
  conflicts(key: StepKey, managers: readonly string[], view: ClusterView): void {
    const message = describeContest(managers);
    this.#logger.warn(`${formatKey(key)}: ${message.replace(/\.$/, '')}`);
    const regarding = toRegarding(key, view);
    if (regarding !== null) this.#events.record('WriteConflict', message, regarding);
  }

  /** A fault of vipnat itself. */
  broken(key: StepKey, error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#logger.error(`${formatKey(key)}: a step failed. vipnat tries again`, {
      code: findErrorCode(error),
      details: text,
    });
  }
}

/** The third failure in a row is reported: two can be another's writes at the same moment. */
const reportedFailures = 2;

/** An event is kept for an hour. */
const reportAgainMs = 3_600_000;

/** As many keys as can fail at a time before one that was reported may be reported early. */
const maxKeys = 10_000;

interface Report {
  readonly atMs: number;
  /** How many failures in a row there were before. */
  readonly failures: number;
}

/** Which failures of a key are reported: the third in a row, and once an hour as long as the row continues. */
class ReportedFailures {
  readonly #clock: Clock;
  readonly #keyToReport = new Map<string, Report>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `failures` failures of this key came right before this one. Fewer than before mean that it had an end in between. */
  shouldReport(key: string, failures: number): boolean {
    if (failures < reportedFailures) return false;
    const now = this.#clock.now();
    const reported = this.#keyToReport.get(key);
    const isOld =
      reported === undefined || failures < reported.failures || now - reported.atMs >= reportAgainMs;
    this.#keyToReport.delete(key);
    this.#keyToReport.set(key, { atMs: isOld ? now : reported.atMs, failures });
    const [oldest] = this.#keyToReport.keys();
    if (this.#keyToReport.size > maxKeys && oldest !== undefined) this.#keyToReport.delete(oldest);
    return isOld;
  }

  /** The row of a key has an end. */
  end(key: string): void {
    this.#keyToReport.delete(key);
  }
}

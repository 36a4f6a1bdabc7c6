/**
 * Apiservers that are listed no more and still have connections: they are probed until those end, so that the
 * connections are reset when the host dies.
 *
 * Goal: nobody waits for a quarter of an hour because an apiserver left the list before its host died.
 * Tension: who has connections is known to the kernel's connection table alone, which is large and says nothing when it
 * changes. An agent may have been started after the departure.
 * Compromise: connections are counted soon after the start and after a departure, and once a minute while anybody has
 * some. Until the first count everybody who left is probed.
 */
import { type Endpoint, formatEndpoint, parseEndpoint } from '../lib/net.ts';
import type { Kernel, FlowSelection } from '../lib/kernel/port.ts';
import { type Clock, Rounds, backOff } from '../lib/clock.ts';
import { HealthMonitor, type MonitorOptions } from './health/monitor.ts';
import type { Watched, HealthView, Health } from './health/usable.ts';
import type { LoopObserver } from './report/events.ts';
import type { Decision } from './decide/decision.ts';
import type { HealthLog } from './report/log.ts';

/** By then new connections go elsewhere, and who had none before has none. */
const firstCountMs = 5000;

/** The connection table of a busy host takes a second to read. */
const countRestMs = 60_000;

/** By then clients have given up by themselves; and a host that cannot count connections cannot reset them either. */
const maxUncountedMs = 900_000;

interface UnlistedPorts {
  readonly kernel: Pick<Kernel, 'countFlows'>;
  readonly clock: Clock;
  readonly report: Pick<HealthLog, 'departed' | 'ended'>;
}

/** Probes the apiservers to watch, and keeps probing the departed ones. */
export class UnlistedHealth extends HealthMonitor {
  readonly #ports: UnlistedPorts;
  readonly #vips: readonly Endpoint[];
  #watched: Watched | null = null;
  /** Null as long as nobody has counted. */
  #reported: ReadonlySet<string> | null = null;
  readonly #counts: Rounds;
  #countedAt = -Infinity;
  /** Whether somebody left since the last count began. */
  #hasNews = false;
  /** Since when connections cannot be counted; null when they can. */
  #uncountedSince: number | null = null;

  /** `vips` are those whose connections count. */
  constructor(options: MonitorOptions, ports: UnlistedPorts, vips: readonly Endpoint[]) {
    super(options);
    this.#ports = ports;
    this.#vips = vips;
    this.#counts = new Rounds(ports.clock, this.#count.bind(this), this.#findDelay.bind(this));
  }

  /** Those who are not listed and have open connections, as text; null as long as nobody has counted. */
  get open(): ReadonlySet<string> | null {
    return this.#reported === null ? null : new Set(this.departed.keys());
  }

  override watch(watched: Watched): HealthView {
    const isFirst = this.#watched === null;
    // Other hosts' connections count only while their VIP is here.
    const hasCome = this.#vips.some(
      ({ address }) =>
        watched.localAddresses.has(address) && this.#watched?.localAddresses.has(address) === false,
    );
    this.#watched = watched;
    const before = this.departed;
    const view = super.watch(watched);
    const hasNews = [...this.departed.keys()].some((text) => !before.has(text));
    this.#hasNews ||= hasNews;
    // Whoever leaves has all the time that the first one had.
    if (hasNews) this.#uncountedSince = null;
    const restMs = this.#countedAt + countRestMs - this.#ports.clock.now();
    if (isFirst || hasNews || hasCome) this.#counts.hasten(Math.max(firstCountMs, restMs));
    return view;
  }

  /** Counts no more, and ends with the count in progress. */
  async stopCounting(): Promise<void> {
    await this.#counts.stop();
  }

  #findDelay(): number | null {
    const isAwaited = this.#uncountedSince !== null && !this.#isHopeless;
    return isAwaited || this.departed.size > 0 ? countRestMs : null;
  }

  get #isHopeless(): boolean {
    return this.#uncountedSince !== null && this.#countedAt - this.#uncountedSince >= maxUncountedMs;
  }

  async #count(): Promise<void> {
    const counts = await this.#countAll();
    this.#countedAt = this.#ports.clock.now();
    if (this.#counts.isStopped) return;
    this.#uncountedSince = counts === null ? (this.#uncountedSince ?? this.#countedAt) : null;
    if (this.#isHopeless) this.#keep(new Map());
    // Who left meanwhile may have got a connection after the table was read.
    else if (counts !== null && !this.#hasNews) this.#keep(counts);
  }

  /** By text; null where that cannot be known. One after the other: each reads the whole table. */
  async #countAll(): Promise<ReadonlyMap<string, number> | null> {
    this.#hasNews = false;
    const total = new Map<string, number>();
    try {
      for (const vip of this.#vips) {
        for (const [text, count] of await this.#ports.kernel.countFlows(vip))
          total.set(text, (total.get(text) ?? 0) + count);
        if (this.#counts.isStopped) return null;
      }
      return total;
    } catch {
      // Not logged here: the reset of connections reports what is wrong.
      return null;
    }
  }

  #keep(counts: ReadonlyMap<string, number>): void {
    const { report } = this.#ports;
    const before = this.#reported ?? new Set<string>();
    const departed = [...counts]
      .toSorted(([, one], [, other]) => other - one)
      .flatMap(([text]) => this.#findDeparted(text));
    this.keepDeparted(departed);
    const kept = departed.filter((one) => this.departed.has(formatEndpoint(one)));
    for (const one of kept) {
      const text = formatEndpoint(one);
      if (!before.has(text)) report.departed(one, counts.get(text) ?? 0);
    }
    const texts = new Set(kept.map(formatEndpoint));
    for (const text of before) if (!texts.has(text)) report.ended(text);
    this.#reported = texts;
  }

  /** An apiserver that is not listed: neither this host itself nor a virtual IP, which answer without an apiserver elsewhere. */
  #findDeparted(text: string): Endpoint[] {
    const endpoint = parseEndpoint(text);
    const isOwn =
      endpoint === null ||
      this.#watched?.localAddresses.has(endpoint.address) === true ||
      this.#vips.some(({ address }) => address === endpoint.address);
    return isOwn || this.view.has(text) ? [] : [endpoint];
  }
}

/**
 * Resets what hangs on dead apiservers: clients get an answer to their next packet, instead of waiting for up to
 * 15 minutes.
 *
 * Goal: each death is answered once for connections that were never established, and once for all.
 * Tension: a reset can fail for a moment or for good, and takes seconds where the connection table is large; a
 * death that comes meanwhile must not wait for it.
 * Compromise: nobody waits for a reset. One runs at a time; one that failed is tried again,
 * more and more rarely, until it is done or nothing hangs there any more.
 */

interface FlowPorts {
  readonly kernel: Pick<Kernel, 'resetFlows'>;
  readonly clock: Clock;
  readonly report: Pick<LoopObserver, 'flowsReset' | 'flowsNotReset'>;
  readonly health: Pick<HealthMonitor, 'view'> & Partial<Pick<HealthMonitor, 'departed'>>;
}

/** The first retry of a reset, doubled each time: the kernel fails for a moment, or does not do that here. */
const firstRetryMs = 250;
const maxRetryMs = 30_000;

/** Keeps resetting what hangs, one after the other. */
export class FlowResets {
  readonly #ports: FlowPorts;
  #decisions: readonly Decision[] = [];
  #episodes: ReadonlyMap<string, Episode> = new Map();
  readonly #resets: Rounds;

  constructor(ports: FlowPorts) {
    this.#ports = ports;
    this.#resets = new Rounds(ports.clock, this.#resetNext.bind(this), () => {
      const next = this.#findNext();
      return next === undefined ? null : next.progress.nextTry - ports.clock.now();
    });
  }

  /** To be called when the kernel has these decisions: a first packet that comes again is balanced again. Returns immediately. */
  hold(decisions: readonly Decision[]): void {
    this.#decisions = decisions;
    this.onHealthChange();
  }

  /** To be called when somebody's health has changed. Returns immediately. */
  onHealthChange(): void {
    const { view, departed = [] } = this.#ports.health;
    const all: HealthView = new Map([...departed, ...view]);
    const hangs = this.#decisions.flatMap((decision) => findHangs(decision, all));
    this.#episodes = new Map(
      hangs.map(({ key, ...hang }) => [
        key,
        { ...hang, progress: this.#episodes.get(key)?.progress ?? { done: 'none', failures: 0, nextTry: 0 } },
      ]),
    );
    this.#resets.plan();
  }

  /** Begins no further reset, and ends with the one in progress. */
  async stop(): Promise<void> {
    await this.#resets.stop();
  }

  #findNext(): Episode | undefined {
    return [...this.#episodes.values()]
      .filter(({ staleConnections, progress: { done } }) => done !== 'all' && done !== staleConnections)
      .toSorted((one, other) => one.progress.nextTry - other.progress.nextTry)[0];
  }

  async #resetNext(): Promise<void> {
    const next = this.#findNext();
    if (next === undefined) return;
    const { vip, backend, staleConnections, progress } = next;
    const { kernel, clock, report } = this.#ports;
    const isHalfOpen = staleConnections === 'half-open';
    try {
      const count = await kernel.resetFlows({ vip, backend, isHalfOpen });
      progress.done = staleConnections;
      progress.failures = 0;
      if (count > 0 && !isHalfOpen) report.flowsReset(vip, backend, count);
    } catch (error) {
      progress.nextTry = clock.now() + backOff(progress.failures, firstRetryMs, maxRetryMs);
      if (progress.failures === 0) report.flowsNotReset(error);
      progress.failures += 1;
    }
  }
}

/** Connections to one VIP that hang on one apiserver. */
type Hang = Omit<FlowSelection, 'isHalfOpen'> & Pick<Health, 'staleConnections'>;

/** The same, and what was done about it: forgotten with the death, also when a reset is still in progress then. */
interface Episode extends Hang {
  readonly progress: { done: Health['staleConnections']; failures: number; nextTry: number };
}

/** What hangs on apiservers that this VIP's new connections no longer go to. */
function findHangs({ vip, backends }: Decision, health: HealthView): (Hang & { readonly key: string })[] {
  const used = new Set(backends.map(formatEndpoint));
  return [...health].flatMap(([text, { staleConnections }]) => {
    const backend = parseEndpoint(text);
    return backend?.family !== vip.family || used.has(text) || staleConnections === 'none'
      ? []
      : [{ key: `${formatEndpoint(vip)} ${text}`, vip, backend, staleConnections }];
  });
}

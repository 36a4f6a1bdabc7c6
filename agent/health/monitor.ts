import type { Config } from '../../config/options.ts';
import { ProbeBudget, type Apiserver, type ProbeResult, addResult, emptyHistory } from './apiserver.ts';
import type { Clock } from '../../lib/clock.ts';
import { type ProbeSettings, Prober } from './prober.ts';
import {
  type Watched,
  type HealthView,
  type Health,
  isUnknown,
  isUnasked,
  summarize,
  initialize,
  trusted,
  see,
  ofFamily,
  isNews,
} from './usable.ts';
import { type EndpointHealth, lossWindowMs, judge, isWell, judgeAll } from './judge.ts';
import { formatEndpoint, includesEndpoint, type Endpoint, type Family, families } from '../../lib/net.ts';

/** Who hangs for longer is not waited for: slow is not dead. */
const maxWaitMs = 1500;

/**
 * Probes apiservers for as long as it takes to know: by the same rules as the agent, milliseconds when all are healthy. Who is
 * left out by rules that are there, and has not shown within that time that it is healthy, stays out.
 */
export async function probeOnce(
  options: Pick<MonitorOptions, 'apiserver' | 'clock' | 'settings'>,
  watched: Watched,
): Promise<HealthView> {
  const { clock } = options;
  return await new Promise((resolve) => {
    const monitor = new HealthMonitor({ ...options, onChange: () => undefined, onResult: finishWhenKnown });
    let cancel = clock.schedule(watched.endpoints.length === 0 ? 0 : maxWaitMs, goOn);
    monitor.watch(watched);
    let hasReserve = monitor.hasReserve;

    function finishWhenKnown(): void {
      if (monitor.isAllTried && monitor.all.every(isKnown)) goOn();
    }

    /** As the agent's next sync would: only now it is known whether anybody else is to be probed. */
    function goOn(): void {
      cancel();
      const hadReserve = hasReserve;
      if (!hadReserve) monitor.watch(watched);
      hasReserve = monitor.hasReserve;
      if (hasReserve && !hadReserve) cancel = clock.schedule(maxWaitMs, finish);
      else finish();
    }

    function finish(): void {
      cancel();
      monitor.stop();
      // Whoever probes once cannot wait for three good answers.
      const proved = monitor.all.filter((one) => one.state === 'warming' && hasGoodAnswer(one));
      resolve(new Map([...monitor.view, ...proved.map(toReady)]));
    }
  });
}

/** Whether further probes would most likely show the same: it is out of use for what was seen of it, or is healthy. */
function isKnown(one: EndpointHealth): boolean {
  const { state, history } = one;
  return state === 'dead' || hasGoodAnswer(one) || (state !== 'ready' && history.failure !== null);
}

/** It has answered both kinds of probes. */
function hasGoodAnswer({ history }: EndpointHealth): boolean {
  return history.connect === 'open' && history.readyAnswers > 0;
}

function toReady({ endpoint, isOwn }: EndpointHealth): [string, Health] {
  const health = { state: 'ready', reason: 'a good answer', staleConnections: 'none' } as const;
  return [formatEndpoint(endpoint), isOwn ? { ...health, isOwn } : health];
}

/** When apiservers lost their open connections lately. One that is gone leaves the list within seconds, and may come back to it. */
class Losses {
  readonly #textToAt = new Map<string, number>();

  note(some: readonly EndpointHealth[], now: number): void {
    for (const { endpoint, staleAt } of some)
      if (staleAt !== -Infinity) this.#textToAt.set(formatEndpoint(endpoint), staleAt);
    for (const [text, at] of this.#textToAt) if (now - at >= lossWindowMs) this.#textToAt.delete(text);
  }

  /** When this one did; -Infinity for not lately. */
  of(endpoint: Endpoint): number {
    return this.#textToAt.get(formatEndpoint(endpoint)) ?? -Infinity;
  }

  /** When any but these did. */
  besides(some: readonly EndpointHealth[]): number[] {
    const texts = new Set(some.map(({ endpoint }) => formatEndpoint(endpoint)));
    return [...this.#textToAt].flatMap(([text, at]) => (texts.has(text) ? [] : [at]));
  }
}

/**
 * Apiservers that somebody took from the list on purpose: they answer, and are no fallback any more.
 *
 * Goal: no connection goes to a master that was removed, which may be another cluster's by now, or half of a split one.
 * Tension: apiservers that shut down or die leave the list too, may be back before any list says so, and are a fallback
 * then (docs/design.md). Some leave the list before anything is seen of their end.
 * Compromise: one that leaves a live list in good health is asked on for a while. It counts as removed when it and all
 * listed ones were healthy all that time; whatever else is seen of it, it stays a fallback.
 */

/** Good answers in a row, one a second: an apiserver that was asked to stop has ended by then, or says that it does. */
const answersToRemove = 45;

/** After this many answers without enough good ones in a row, the apiserver is no longer asked: the listed ones are not healthy. */
const maxAnswers = 300;

/** So many are remembered, as many as memory keeps (docs/adr/0011). */
const maxRemovals = 8;

/** One that left a live list in good health. */
interface Removal {
  readonly health: EndpointHealth;
  /** Good answers in a row while all listed apiservers were healthy. */
  readonly good: number;
  readonly answers: number;
}

/** Whom a live source, the API or kube-proxy, lists: of one that lists nobody of a family nothing is known. */
type LiveList = Required<Pick<Watched, 'endpoints' | 'live'>>;

/** Follows those who leave. */
class Removals {
  #list: LiveList = { endpoints: [], live: [] };
  #removals: readonly Removal[] = [];

  /** Those who are to be probed. */
  get asked(): readonly Endpoint[] {
    return this.#removals
      .filter((one) => !isRemoved(one) && one.answers < maxAnswers)
      .map(({ health }) => health.endpoint);
  }

  get removed(): ReadonlySet<string> {
    return new Set(this.#removals.filter(isRemoved).map(({ health }) => formatEndpoint(health.endpoint)));
  }

  /** To be called with each list, and with those that are no longer watched, as they were last. */
  watch(list: LiveList, left: readonly EndpointHealth[]): void {
    const before = toTexts(this.#list.live);
    const listed = toTexts(list.endpoints);
    const families = new Set<Family>(list.live.map(({ family }) => family));
    this.#list = list;
    const begun = left
      .filter(({ endpoint }) => before.has(formatEndpoint(endpoint)) && families.has(endpoint.family))
      .filter((one) => !one.isLocal && isInGoodHealth(one))
      .map((health) => ({ health, good: 0, answers: 0 }));
    const kept = this.#removals.filter(({ health }) => !listed.has(formatEndpoint(health.endpoint)));
    this.#removals = [...begun, ...kept].slice(0, maxRemovals);
  }

  /** Adds what a probe has shown of an apiserver; `all` are those who are watched, and how. */
  learn(
    text: string,
    result: ProbeResult,
    { askedAt, all, now }: Record<'askedAt' | 'now', number> & { readonly all: readonly EndpointHealth[] },
  ): void {
    if (!this.asked.some((endpoint) => formatEndpoint(endpoint) === text)) return;
    this.#removals = this.#removals.flatMap((removal) => {
      const { endpoint, history } = removal.health;
      if (formatEndpoint(endpoint) !== text) return [removal];
      const listed = this.#findListed(endpoint.family, all);
      const next = { ...removal.health, history: addResult(history, result, askedAt) };
      const health = judge(next, { others: listed, now, goneAt: [] });
      if (!isInGoodHealth(health)) return [];
      if (result.kind !== 'ready') return [{ ...removal, health }];
      const good = listed.length > 0 && listed.every((one) => isWell(one)) ? removal.good + 1 : 0;
      return [{ health, good, answers: removal.answers + 1 }];
    });
  }

  #findListed(family: Family, all: readonly EndpointHealth[]): EndpointHealth[] {
    const texts = toTexts(this.#list.live);
    return all.filter(({ endpoint }) => endpoint.family === family && texts.has(formatEndpoint(endpoint)));
  }
}

/** Nothing speaks against it, and a question was answered well. */
function isInGoodHealth(one: EndpointHealth): boolean {
  const { failure, unanswered, readyAt } = one.history;
  return (
    one.state === 'ready' && isWell(one) && failure === null && unanswered === 0 && readyAt !== -Infinity
  );
}

function isRemoved({ good }: Removal): boolean {
  return good >= answersToRemove;
}

function toTexts(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  return new Set(endpoints.map(formatEndpoint));
}

/** The dependencies of the monitor, and its listeners. */
export interface MonitorOptions {
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly settings: ProbeSettings;
  /** Called after every change of a state, or of a failure that nobody confirms, when the view has it. */
  readonly onChange: (before: EndpointHealth, after: EndpointHealth) => void;
  /** Called for each that is listed no more, as it was last. */
  readonly onLeave?: (last: EndpointHealth) => void;
  /**
   * Called when connections to an apiserver that left the list become stale, or no longer are. If it is given, apiservers
   * that leave are still probed until `keepDeparted` leaves them out.
   */
  readonly onDepartedChange?: () => void;
  /** Called after every probe. */
  readonly onResult?: () => void;
}

/** How many unlisted apiservers are probed at a time: the connection table may name any address. */
const maxDeparted = 8;

/** Probes apiservers from the moment they are first seen until they are no longer listed, or have no connections any more. */
export class HealthMonitor {
  readonly #options: MonitorOptions;
  readonly #probers = new Map<string, Prober>();
  /** By text, also of apiservers that are not probed any more, as long as they limit anything. */
  readonly #budgets = new Map<string, ProbeBudget>();
  readonly #removals = new Removals();
  readonly #losses = new Losses();
  #all: readonly EndpointHealth[] = [];
  /** Listed no more: no candidates, and they corroborate nothing. */
  #departed: readonly EndpointHealth[] = [];
  /** Since when a family's fallback endpoints are watched. */
  readonly #reservedSince = new Map<Family, number>();
  #listed = 0;
  #isStopped = false;
  /** Whether the last apiservers came from a caller that has read no rules. */
  #isBlind = false;

  constructor(options: MonitorOptions) {
    this.#options = options;
  }

  /** The health of all that are watched. */
  get all(): readonly EndpointHealth[] {
    return this.#all.filter((one) => !isUnknown(one));
  }

  /** Whether fallback endpoints are probed, because no listed apiserver is healthy. */
  get hasReserve(): boolean {
    return this.#all.length > this.#listed;
  }

  /** Whether every apiserver was probed once, and this host's own unlisted one was asked once. */
  get isAllTried(): boolean {
    return this.#all.every((one) => one.history !== emptyHistory && !isUnasked(one));
  }

  /** The same by endpoint, for decisions. */
  get view(): HealthView {
    return new Map(this.all.map((one) => [formatEndpoint(one.endpoint), summarize(one)]));
  }

  /** The health of those who are listed no more and still probed: what hangs on them, and nothing else, depends on it. */
  get departed(): HealthView {
    return new Map(this.#departed.map((one) => [formatEndpoint(one.endpoint), summarize(one)]));
  }

  /** Those who were taken from the list on purpose, as text, see Removals. */
  get removed(): ReadonlySet<string> {
    return this.#removals.removed;
  }

  /** Of those who are not listed, probes these from now on for their connections, and no others: at most maxDeparted, the first. */
  keepDeparted(endpoints: readonly Endpoint[]): void {
    if (this.#isStopped) return;
    const kept = endpoints.filter((endpoint) => this.#find(formatEndpoint(endpoint)) === undefined);
    this.#departed = kept
      .slice(0, maxDeparted)
      .map(
        (endpoint) =>
          this.#departed.find((one) => formatEndpoint(one.endpoint) === formatEndpoint(endpoint)) ??
          initialize(endpoint, trusted, { now: this.#options.clock.now(), isLocal: false, isOwn: false }),
      );
    this.#probe();
  }

  /** Begins to probe those that are new and ends it for those that are gone. Answers the view immediately, without waiting for a probe. */
  watch(watched: Watched): HealthView {
    const { endpoints: listed, localAddresses, fallbackEndpoints = [], own = [] } = watched;
    if (this.#isStopped) return this.view;
    // Whom no probe has shown yet is as the rules have it, once these are known (docs/design.md).
    if (this.#isBlind) this.#all = this.#all.filter(({ history }) => history !== emptyHistory);
    this.#isBlind = watched.isBlind === true;
    const needy = families.filter((family) => this.#needsReserve(watched, family));
    const endpoints = [
      ...listed,
      ...[...fallbackEndpoints, ...own].filter(({ family }) => needy.includes(family)),
    ];
    const now = this.#options.clock.now();
    const toWhose = (endpoint: Endpoint) => ({
      isLocal: localAddresses.has(endpoint.address),
      isOwn: includesEndpoint(own, endpoint) && !includesEndpoint(listed, endpoint),
    });
    const texts = new Set(endpoints.map(formatEndpoint));
    const known = this.#all.filter((one) => texts.has(formatEndpoint(one.endpoint)));
    const left = this.#all.filter((one) => !texts.has(formatEndpoint(one.endpoint)));
    const added = endpoints.filter((endpoint) => this.#find(formatEndpoint(endpoint)) === undefined);
    this.#all = [
      ...known.map((one) => ({ ...one, ...toWhose(one.endpoint) })),
      ...added.map((endpoint) => ({
        ...initialize(endpoint, see(endpoint, watched, this.#all, known), { now, ...toWhose(endpoint) }),
        staleAt: this.#losses.of(endpoint),
      })),
    ];
    this.#listed = listed.length;
    if (this.#options.onDepartedChange !== undefined) {
      this.#removals.watch({ endpoints: listed, live: watched.live ?? [] }, left);
      this.#departed = [...left.filter(({ isLocal }) => !isLocal), ...this.#departed]
        .filter(({ endpoint }) => !texts.has(formatEndpoint(endpoint)))
        .slice(0, maxDeparted);
    }
    this.#probe();
    for (const one of left) this.#options.onLeave?.(one);
    return this.view;
  }

  /** Has a prober for each, and for nobody else. */
  #probe(): void {
    const probed = new Map(
      [...[...this.#all, ...this.#departed].map(({ endpoint }) => endpoint), ...this.#removals.asked].map(
        (endpoint) => [formatEndpoint(endpoint), endpoint],
      ),
    );
    for (const [text, prober] of this.#probers) {
      if (probed.has(text)) continue;
      prober.stop();
      this.#probers.delete(text);
    }
    for (const [text, endpoint] of probed) if (!this.#probers.has(text)) this.#startProber(endpoint);
    const now = this.#options.clock.now();
    for (const [text, budget] of this.#budgets)
      if (!probed.has(text) && budget.isIdle(now)) this.#budgets.delete(text);
  }

  /** Whether no listed apiserver is healthy; once that is so, until one of them has given a good answer since. */
  #needsReserve(watched: Watched, family: Family): boolean {
    const since = this.#reservedSince.get(family);
    const all = this.#all;
    const isServed = ofFamily(watched.endpoints, family).some((endpoint) => {
      const one = this.#find(formatEndpoint(endpoint));
      if (one !== undefined) return isWell(one, since);
      // One that is new counts as well, as everywhere.
      return since === undefined && see(endpoint, watched, all).state !== 'draining';
    });
    if (isServed) this.#reservedSince.delete(family);
    else this.#reservedSince.set(family, since ?? this.#options.clock.now());
    return !isServed;
  }

  #find(text: string): EndpointHealth | undefined {
    return this.#all.find(({ endpoint }) => formatEndpoint(endpoint) === text);
  }

  /** Ends all probes for good. The view stays as it is: nobody is met any more. */
  stop(): void {
    this.#isStopped = true;
    for (const prober of this.#probers.values()) prober.stop();
    this.#probers.clear();
  }

  #startProber(endpoint: Endpoint): void {
    const { apiserver, clock, settings } = this.#options;
    const text = formatEndpoint(endpoint);
    const onResult = this.#learn.bind(this, text);
    const budget = this.#budgets.get(text) ?? new ProbeBudget();
    this.#budgets.set(text, budget);
    this.#probers.set(text, new Prober({ endpoint, apiserver, clock, ...settings, budget, onResult }));
  }

  #learn(text: string, result: ProbeResult, askedAt: number): void {
    this.#removals.learn(text, result, { askedAt, all: this.#all, now: this.#options.clock.now() });
    if (this.#find(text) === undefined) {
      this.#learnOfDeparted(text, result, askedAt);
      return;
    }
    const before = this.#all;
    const learnt = before.map((one) =>
      formatEndpoint(one.endpoint) === text
        ? { ...one, history: addResult(one.history, result, askedAt) }
        : one,
    );
    const now = this.#options.clock.now();
    this.#all = judgeAll(learnt, now, this.#losses.besides(learnt));
    this.#losses.note(this.#all, now);
    this.#all.forEach((after, index) => {
      const old = before[index];
      if (old !== undefined && isNews(old, after)) this.#options.onChange(old, after);
    });
    this.#options.onResult?.();
    if (result.kind === 'failing') this.#askOthers(text, askedAt);
  }

  #learnOfDeparted(text: string, result: ProbeResult, askedAt: number): void {
    const before = this.departed.get(text)?.staleConnections;
    const now = this.#options.clock.now();
    this.#departed = this.#departed.map((one) => {
      if (formatEndpoint(one.endpoint) !== text) return one;
      const history = addResult(one.history, result, askedAt);
      const goneAt = this.#losses.besides([one, ...this.#all]);
      return judge({ ...one, history }, { others: this.#all, now, goneAt });
    });
    this.#losses.note(this.#departed, now);
    if (this.departed.get(text)?.staleConnections !== before) this.#options.onDepartedChange?.();
  }

  /** Only another apiserver's good answer makes a bad one count. It is asked for immediately, when the bad answers begin and not again (I13). */
  #askOthers(text: string, since: number): void {
    const one = this.#find(text);
    if (one?.state !== 'ready') return;
    const now = this.#options.clock.now();
    if (this.#budgets.get(text)?.takeAlarm(one.history.readyAt, now) !== true) return;
    for (const { endpoint } of this.#all) {
      const other = formatEndpoint(endpoint);
      if (other !== text) this.#probers.get(other)?.askSince(since);
    }
  }
}

/** How apiservers are probed, as configured. */
export function toProbeSettings({ probeIntervalMs, probeTimeoutMs }: Config): ProbeSettings {
  return { intervalMs: probeIntervalMs, timeoutMs: probeTimeoutMs };
}

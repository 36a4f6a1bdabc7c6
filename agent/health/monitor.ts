import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type Apiserver } from '../probe/apiserver.ts';
import { type EndpointHealth, isWell } from './endpoint-health.ts';
import { includes, isUnasked, isUnknown, meet, ofFamily, see, trusted } from './first-sight.ts';
import { judgeAll, judgeBeside } from './judge.ts';
import { Losses } from './losses.ts';
import { ProbeBudgets } from '../probe/probe-budget.ts';
import { Prober, type ProbeSettings } from '../probe/prober.ts';
import { Removals } from './removals.ts';
import { isNews, summarize } from './summary.ts';
import { type HealthView } from './usable.ts';
import { type Watched } from './watched.ts';
import { emptyHistory, type ProbeResult, addResult } from '../probe/probe-history.ts';

/** What the monitor needs of the world, and its listeners. */
export interface MonitorOptions {
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly settings: ProbeSettings;
  /** Told of every change of a state, or of a failure that nobody confirms, after the view has it. */
  readonly onChange: (before: EndpointHealth, after: EndpointHealth) => void;
  /** Told of each that is listed no more, as it was last. */
  readonly onLeave?: (last: EndpointHealth) => void;
  /**
   * Called when connections to an apiserver that left the list become stale, or no longer are. If it is given, apiservers
   * that leave are still probed until `keepDeparted` leaves them out.
   */
  readonly onDepartedChange?: () => void;
  /** Told after every probe. */
  readonly onResult?: () => void;
}

/** How many unlisted apiservers are probed at a time: the connection table may name any address. */
export const maxDeparted = 8;

/** Probes apiservers from the moment they are first seen until they are no longer listed, or have no connections any more. */
export class HealthMonitor {
  readonly #options: MonitorOptions;
  readonly #probers = new Map<string, Prober>();
  readonly #budgets = new ProbeBudgets();
  readonly #removals = new Removals();
  readonly #losses = new Losses();
  #all: readonly EndpointHealth[] = [];
  /** Listed no more: no candidates and no witnesses. */
  #departed: readonly EndpointHealth[] = [];
  /** Since when a family's fallback endpoints are watched. */
  readonly #reservedSince = new Map<Family, number>();
  /** How many are listed. */
  #listed = 0;
  #isStopped = false;
  /** Whether it was last told of apiservers by whom nothing of the rules was read. */
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

  /** Those who were taken from the list on purpose, as text, see removals.ts. */
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
          meet(endpoint, trusted, { now: this.#options.clock.now(), isLocal: false, isOwn: false }),
      );
    this.#probe();
  }

  /** Begins to probe those that are new and ends it for those that are gone. Answers the view at once, without waiting for a probe. */
  watch(watched: Watched): HealthView {
    const {
      endpoints: listed,
      localAddresses,
      fallbackEndpoints: fallbackEndpoints = [],
      own = [],
    } = watched;
    if (this.#isStopped) return this.view;
    // Whom no probe has shown yet is as the rules have it, once these are known (docs/adr/0017).
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
      isOwn: includes(own, endpoint) && !includes(listed, endpoint),
    });
    const texts = new Set(endpoints.map(formatEndpoint));
    const known = this.#all.filter((one) => texts.has(formatEndpoint(one.endpoint)));
    const left = this.#all.filter((one) => !texts.has(formatEndpoint(one.endpoint)));
    const added = endpoints.filter((endpoint) => this.#find(formatEndpoint(endpoint)) === undefined);
    this.#all = [
      ...known.map((one) => ({ ...one, ...toWhose(one.endpoint) })),
      ...added.map((endpoint) => ({
        ...meet(endpoint, see(endpoint, { all: this.#all, known, watched }), { now, ...toWhose(endpoint) }),
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
    this.#budgets.forgetIdle(new Set(probed.keys()), this.#options.clock.now());
  }

  /** Whether none of those who are listed does well; once that is so, until one of them has given a good answer since. */
  #needsReserve(watched: Watched, family: Family): boolean {
    const since = this.#reservedSince.get(family);
    const all = this.#all;
    const isServed = ofFamily(watched.endpoints, family).some((endpoint) => {
      const one = this.#find(formatEndpoint(endpoint));
      if (one !== undefined) return isWell(one, since);
      // One that is new counts as well, as everywhere.
      return since === undefined && see(endpoint, { all, known: all, watched }).state !== 'draining';
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
    const onResult = (result: ProbeResult, askedAt: number) => {
      this.#learn(text, result, askedAt);
    };
    const budget = this.#budgets.of(text);
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
      return judgeBeside({ ...one, history }, { others: this.#all, now, goneAt });
    });
    this.#losses.note(this.#departed, now);
    if (this.departed.get(text)?.staleConnections !== before) this.#options.onDepartedChange?.();
  }

  /** Only another apiserver's good answer makes a bad one count. It is asked for at once, when the bad answers begin and not again (I13). */
  #askOthers(text: string, since: number): void {
    const one = this.#find(text);
    if (one?.state !== 'ready') return;
    if (!this.#budgets.of(text).takeAlarm(one.history.readyAt, this.#options.clock.now())) return;
    for (const { endpoint } of this.#all) {
      const other = formatEndpoint(endpoint);
      if (other !== text) this.#probers.get(other)?.askSince(since);
    }
  }
}

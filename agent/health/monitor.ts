import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Clock } from '../../lib/kernel/clock.ts';
import { type Apiserver } from './apiserver.ts';
import { addEvidence, type EndpointHealth, type Evidence, noSymptoms } from './endpoint-health.ts';
import { isUnheard, judgeAll } from './judge.ts';
import { ProbeBudgets } from './probe-budget.ts';
import { Prober, type ProbeSettings } from './prober.ts';
import { type Health, type HealthView } from './usable.ts';

/** What a change of somebody's health asks for. */
export type Urgency =
  /** New connections must go elsewhere, or open ones be reset: now. */
  | 'urgent'
  /** The next look will do. */
  | 'calm';

/** What the monitor needs of the world, and whom it tells. */
export interface MonitorOptions {
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  readonly settings: ProbeSettings;
  /** Told of every change of a state or suspicion, after the view has it. */
  readonly onChange: (before: EndpointHealth, after: EndpointHealth) => void;
  /** Told of each that is listed no more, as it was last. */
  readonly onLeave?: (last: EndpointHealth) => void;
  /** Told after every probe. */
  readonly onEvidence?: () => void;
}

/** Apiservers as a look finds them, and which addresses are this host's own. */
export interface Watched {
  readonly endpoints: readonly Endpoint[];
  readonly localAddresses: ReadonlySet<string>;
  /** Who is watched too while none of a family does well: all are dead, draining, or kept in use for want of a better one. */
  readonly reserve?: readonly Endpoint[];
}

/** Probes apiservers from the moment they are first seen until they are no longer listed. */
export class HealthMonitor {
  readonly #options: MonitorOptions;
  readonly #probers = new Map<string, Prober>();
  readonly #budgets = new ProbeBudgets();
  #all: readonly EndpointHealth[] = [];
  /** Since when a family's reserve is watched. */
  readonly #reservedSince = new Map<Family, number>();
  #isStopped = false;

  constructor(options: MonitorOptions) {
    this.#options = options;
  }

  /** The health of all that are watched. */
  get all(): readonly EndpointHealth[] {
    return this.#all;
  }

  /** The same by endpoint, for decisions. */
  get view(): HealthView {
    return new Map(this.#all.map((one) => [formatEndpoint(one.endpoint), summarize(one)]));
  }

  /** Begins to probe those that are new and ends it for those that are gone. Answers the view at once, without waiting for a probe. */
  watch({ endpoints: listed, localAddresses, reserve = [] }: Watched): HealthView {
    if (this.#isStopped) return this.view;
    const needy = families.filter((family) => this.#needsReserve(listed, family));
    const endpoints = [...listed, ...reserve.filter(({ family }) => needy.includes(family))];
    const texts = new Set(endpoints.map(formatEndpoint));
    const known = this.#all.filter((one) => texts.has(formatEndpoint(one.endpoint)));
    const left = this.#all.filter((one) => !texts.has(formatEndpoint(one.endpoint)));
    // Whoever comes while others serve has to prove itself; at the start nobody is suspected of anything.
    const isServing = ({ family }: Endpoint) =>
      known.some(
        ({ state, endpoint }) => state === 'ready' || (state === 'draining' && endpoint.family === family),
      );
    for (const [text, prober] of this.#probers) {
      if (texts.has(text)) continue;
      prober.stop();
      this.#probers.delete(text);
    }
    const added = endpoints.filter((endpoint) => !this.#probers.has(formatEndpoint(endpoint)));
    this.#all = [
      ...known.map((one) => ({ ...one, isLocal: localAddresses.has(one.endpoint.address) })),
      ...added.map((endpoint) =>
        this.#meet(endpoint, {
          isStart: !isServing(endpoint),
          isLocal: localAddresses.has(endpoint.address),
        }),
      ),
    ];
    for (const endpoint of added) this.#startProber(endpoint);
    for (const one of left) this.#options.onLeave?.(one);
    this.#budgets.forgetIdle(texts, this.#options.clock.now());
    return this.view;
  }

  /** Whether none of those who are listed does well; once that is so, until one of them has given a good answer since. */
  #needsReserve(listed: readonly Endpoint[], family: Family): boolean {
    const since = this.#reservedSince.get(family);
    const isServed = listed
      .filter((endpoint) => endpoint.family === family)
      .map((endpoint) => this.#find(formatEndpoint(endpoint)))
      // One that is new counts as well, as everywhere.
      .some((one) => (one === undefined ? since === undefined : isWell(one, since)));
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

  #meet(endpoint: Endpoint, { isStart, isLocal }: { isStart: boolean; isLocal: boolean }): EndpointHealth {
    return {
      endpoint,
      metAt: this.#options.clock.now(),
      isLocal,
      state: isStart ? 'ready' : 'warming',
      reason: isStart ? 'not probed yet' : 'new',
      since: this.#options.clock.now(),
      suspicion: null,
      pardonedUntil: 0,
      isLost: false,
      symptoms: noSymptoms,
      falls: [],
    };
  }

  #startProber(endpoint: Endpoint): void {
    const { apiserver, clock, settings } = this.#options;
    const text = formatEndpoint(endpoint);
    const onEvidence = (evidence: Evidence, askedAt: number) => {
      this.#learn(text, evidence, askedAt);
    };
    const budget = this.#budgets.of(text);
    this.#probers.set(text, new Prober({ endpoint, apiserver, clock, ...settings, budget, onEvidence }));
  }

  #learn(text: string, evidence: Evidence, askedAt: number): void {
    const before = this.#all;
    const learnt = before.map((one) =>
      formatEndpoint(one.endpoint) === text
        ? { ...one, symptoms: addEvidence(one.symptoms, evidence, askedAt) }
        : one,
    );
    this.#all = judgeAll(learnt, this.#options.clock.now());
    this.#all.forEach((after, index) => {
      const old = before[index];
      if (old !== undefined && isNews(old, after)) this.#options.onChange(old, after);
    });
    this.#options.onEvidence?.();
    if (evidence.kind === 'failing') this.#askOthers(text, askedAt);
  }

  /** Only another apiserver's good answer makes a bad one count. It is asked for at once, when the bad answers begin and not again (I13). */
  #askOthers(text: string, since: number): void {
    const one = this.#find(text);
    if (one?.state !== 'ready') return;
    if (!this.#budgets.of(text).takeAlarm(one.symptoms.readyAt, this.#options.clock.now())) return;
    for (const [other, prober] of this.#probers) if (other !== text) prober.askSince(since);
  }
}

/** Whether nothing speaks against it, and a question that was asked since was answered well. */
function isWell({ state, suspicion, symptoms }: EndpointHealth, since = -Infinity): boolean {
  const isUsable = state === 'ready' || state === 'warming';
  return isUsable && suspicion === null && (since === -Infinity || symptoms.readyAt > since);
}

function summarize(one: EndpointHealth): Health {
  const { state, reason, symptoms, isLost, suspicion } = one;
  const isSilent = state === 'dead' && symptoms.unheard > 0;
  const hanging = isLost ? 'all' : isSilent ? 'half-open' : 'none';
  const doubt = suspicion === null ? {} : { doubt: suspicion.reason };
  return { state, reason, hanging, ...doubt, ...(isUnheard(one) ? { isUnheard: true } : {}) };
}

function isNews(before: EndpointHealth, after: EndpointHealth): boolean {
  return (
    before.state !== after.state ||
    before.isLost !== after.isLost ||
    isUnheard(before) !== isUnheard(after) ||
    (before.suspicion === null) !== (after.suspicion === null)
  );
}

/** Whether a change cannot wait for a look: connections go, or hang, where nobody answers. A look decides who is watched beside it. */
export function rateUrgency(before: EndpointHealth, after: EndpointHealth): Urgency {
  const isFall = before.state === 'ready' && after.state !== 'ready';
  return isFall || (after.isLost && !before.isLost) ? 'urgent' : 'calm';
}

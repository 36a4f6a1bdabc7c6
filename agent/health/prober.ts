/**
 * The probes of one apiserver: a TCP connect at each interval, GET /readyz each second on a connection that is held,
 * and a burst of connects when that connection closes, for then the process has most likely died.
 */
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Cancel, type Clock } from '../../lib/kernel/clock.ts';
import { type Apiserver, type ConnectOutcome, type HeldConnection, type ReadyzOutcome } from './apiserver.ts';
import { type Evidence } from './endpoint-health.ts';

/** How often and how patiently apiservers are asked. */
export interface ProbeSettings {
  /** From the start of one connect to that of the next (`--probe-interval`). */
  readonly intervalMs: number;
  /** How long a connect may take (`--probe-timeout`). */
  readonly timeoutMs: number;
}

/** What a prober needs of the world, and whom it tells. */
export interface ProberOptions extends ProbeSettings {
  readonly endpoint: Endpoint;
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  /** Told what each probe has shown, and when it was begun. */
  readonly onEvidence: (evidence: Evidence, askedAt: number) => void;
}

const questionIntervalMs = 1000;

/** A second until the next question and three of them unanswered make less than 10 s. */
const questionLimitMs = 2900;

/** After the held connection closed: sockets are closed before the listener is, one after the other, so the first connects can still succeed. */
const burstMs = [0, 3, 6, 10, 15, 20, 25, 30, 40, 50, 75, 100, 300];

/** Probes one apiserver from its creation until it is stopped. One connect and one question are under way at most. */
export class Prober {
  readonly #options: ProberOptions;
  readonly #held: HeldConnection;
  #cancelConnect: Cancel = () => undefined;
  #cancelQuestion: Cancel = () => undefined;
  #burst: readonly number[] = [];
  #burstAt = 0;
  #closedAt: number | null = null;
  #connectDueAt: number;
  #questionDueAt: number;
  #isConnecting = false;
  #isAsking = false;
  #isAccepting = true;
  #isSilent = false;
  #isStopped = false;

  constructor(options: ProberOptions) {
    this.#options = options;
    this.#connectDueAt = options.clock.now();
    this.#questionDueAt = this.#connectDueAt;
    this.#held = options.apiserver.hold(options.endpoint, () => {
      this.#onClose();
    });
    void this.#connect();
    void this.#ask();
  }

  /** Asks /readyz now instead of in up to a second. */
  askNow(): void {
    if (this.#isAsking || this.#isStopped) return;
    this.#cancelQuestion();
    this.#questionDueAt = this.#options.clock.now();
    void this.#ask();
  }

  /** Ends its timers and its connection; nobody is told anything afterwards. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelConnect();
    this.#cancelQuestion();
    this.#held.close();
  }

  async #connect(): Promise<void> {
    const { apiserver, clock, endpoint, timeoutMs } = this.#options;
    const askedAt = clock.now();
    this.#isConnecting = true;
    const outcome = await apiserver.connect(endpoint, timeoutMs);
    this.#isConnecting = false;
    if (this.#isStopped) return;
    this.#scheduleConnect();
    const isTurn = this.#takeNote(outcome);
    const evidence = this.#toConnectEvidence(outcome);
    if (evidence !== null) this.#options.onEvidence(evidence, askedAt);
    if (isTurn) this.askNow();
  }

  /** Answers whether a question is due: how it is now that it comes back, or whether only new connections vanish. */
  #takeNote({ kind }: ConnectOutcome): boolean {
    if (kind === 'untried') return false;
    const [wasAccepting, wasSilent] = [this.#isAccepting, this.#isSilent];
    this.#isAccepting = kind === 'open';
    this.#isSilent = kind === 'silent';
    return (this.#isAccepting && !wasAccepting) || (this.#isSilent && !wasSilent);
  }

  /** The next one of the burst, or an interval after the last was due: timers that are late do not add up, what was missed is not made up for. */
  #scheduleConnect(): void {
    const { clock, intervalMs } = this.#options;
    const [next, ...rest] = this.#burst;
    this.#burst = rest;
    this.#connectDueAt = next === undefined ? this.#connectDueAt + intervalMs : this.#burstAt + next;
    const now = clock.now();
    this.#connectDueAt = Math.max(this.#connectDueAt, now);
    this.#cancelConnect = clock.schedule(this.#connectDueAt - now, () => void this.#connect());
  }

  #onClose(): void {
    if (this.#isStopped) return;
    const { clock } = this.#options;
    this.#closedAt = clock.now();
    this.#burstAt = this.#closedAt;
    this.#burst = burstMs;
    // The one under way may have begun before: the burst follows it.
    if (this.#isConnecting) return;
    this.#cancelConnect();
    this.#burst = burstMs.slice(1);
    this.#connectDueAt = this.#burstAt;
    void this.#connect();
  }

  #toConnectEvidence(outcome: ConnectOutcome): Evidence | null {
    switch (outcome.kind) {
      case 'open':
        return outcome;
      case 'refused':
        this.#burst = [];
        return this.#held.isOpen
          ? { kind: 'doubtful', reason: 'connection refused, though an older one is still open' }
          : { kind: 'refused', reason: `connection refused${this.#describeClose()}` };
      case 'unreachable':
        return { kind: 'unreachable', reason: `no way there (${outcome.code})` };
      case 'silent':
        return { kind: 'silent', reason: `no answer to connects within ${this.#options.timeoutMs} ms` };
      case 'untried':
        return null;
    }
  }

  #describeClose(): string {
    const ms = Math.round(this.#options.clock.now() - (this.#closedAt ?? -Infinity));
    return ms < questionIntervalMs ? ` ${ms} ms after its connection closed` : '';
  }

  async #ask(): Promise<void> {
    const { clock } = this.#options;
    const askedAt = clock.now();
    this.#isAsking = true;
    // Who accepts no connection is not asked, but over one that may live.
    const isAsked = this.#isAccepting || (this.#isSilent && this.#held.isOpen);
    const outcome = isAsked ? await this.#held.ask(questionLimitMs) : null;
    this.#isAsking = false;
    if (this.#isStopped) return;
    const now = clock.now();
    this.#questionDueAt = Math.max(this.#questionDueAt + questionIntervalMs, now);
    this.#cancelQuestion = clock.schedule(this.#questionDueAt - now, () => void this.#ask());
    if (outcome !== null) this.#options.onEvidence(toQuestionEvidence(outcome), askedAt);
  }
}

function toQuestionEvidence(outcome: ReadyzOutcome): Evidence {
  return outcome.kind === 'silent' || outcome.kind === 'closed' ? { kind: 'unanswered' } : outcome;
}

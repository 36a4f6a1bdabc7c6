import type { Endpoint } from '../../lib/net.ts';
import type { Apiserver, ProbeBudget, ProbeResult, HeldConnection, ReadyzOutcome } from './apiserver.ts';
import type { Clock, Cancel } from '../../lib/clock.ts';
import { Pinger, settledMs, openPingConnection } from './pinger.ts';
import { type ConnectOutcome, connectOnce } from '../../lib/http/client.ts';
import type { Authority } from '../../lib/files.ts';
import { type ReadCredentials, noCredentials, DrainChecks, TlsConnection } from './connection.ts';

/**
 * The probes of one apiserver: a TCP connect at each interval, GET /readyz each second on a connection that is held,
 * and a burst of connects when that connection closes, for then the process has most likely died. A connect that was
 * accepted is followed by a drain check, as often as the budget allows. Pings are apart from them, see pinger.ts.
 */

/** How often and how patiently apiservers are asked. */
export interface ProbeSettings {
  /** From the start of one connect to that of the next (`--probe-interval`). */
  readonly intervalMs: number;
  /** How long a connect may take (`--probe-timeout`). */
  readonly timeoutMs: number;
}

/** The dependencies of a prober, and its listeners. */
interface ProberOptions extends ProbeSettings {
  readonly endpoint: Endpoint;
  readonly apiserver: Apiserver;
  readonly clock: Clock;
  /** What may be sent, by this prober and by those before it. */
  readonly budget: ProbeBudget;
  /** Called with what each probe has shown, and when it was begun. */
  readonly onResult: (result: ProbeResult, askedAt: number) => void;
}

const questionIntervalMs = 1000;

/** A second until the next question and three of them unanswered make less than 10 s. */
const questionLimitMs = 2900;

/** An answer that takes longer is no sign of good health. Well ones take milliseconds. */
const promptMs = 1000;

/** After the held connection closed: sockets are closed before the listener is, one after the other, so the first connects can still succeed. */
const burstMs = [0, 3, 6, 10, 15, 20, 25, 30, 40, 50, 75, 100, 300];

/** A process that ends closes all of its connections one after the other, and has hundreds. */
const togetherMs = 100;

/** Probes one apiserver from its creation until it is stopped, within the budget. At most one connect and one question are in progress, pings aside. */
export class Prober {
  readonly #options: ProberOptions;
  readonly #held: HeldConnection;
  readonly #pinger: Pinger;
  #cancelConnect: Cancel = () => undefined;
  #cancelQuestion: Cancel = () => undefined;
  #burst: readonly number[] = [];
  #burstAt = 0;
  #closedAt: number | null = null;
  /** Since when questions on the held connection are answered; null while it is not up. */
  #answeringSince: number | null = null;
  /** When the held connection, and the one for pings, ended that had been well for a while; not again before the next burst. */
  #heldEndedAt = -Infinity;
  #pingsEndedAt = -Infinity;
  #connectDueAt: number;
  #questionDueAt: number;
  /** When the last question was sent. */
  #askedAt = -Infinity;
  /** Somebody needs a question that is asked no earlier than then. */
  #wantedSince = -Infinity;
  #isConnecting = false;
  #isAsking = false;
  #isAccepting = true;
  #isUnresponsive = false;
  #isCheckingDrain = false;
  #isStopped = false;

  constructor(options: ProberOptions) {
    this.#options = options;
    const { clock, budget, intervalMs } = options;
    this.#questionDueAt = clock.now();
    this.#connectDueAt = Math.max(clock.now(), budget.connectedAt + intervalMs);
    this.#held = options.apiserver.hold(options.endpoint, () => {
      this.#onClose();
    });
    this.#pinger = new Pinger({
      ...options,
      isAccepting: () => this.#isAccepting,
      onEnd: () => {
        this.#pingsEndedAt = clock.now();
        this.#noteEnd();
      },
    });
    if (this.#connectDueAt > clock.now()) this.#waitToConnect();
    else void this.#connect();
    void this.#ask();
  }

  /**
   * Has /readyz asked no earlier than at a time of the past: now instead of in up to a second, or after the question in
   * progress. One that was asked since then will do.
   */
  askSince(since: number): void {
    if (this.#isStopped || this.#askedAt >= since) return;
    this.#wantedSince = since;
    if (this.#isAsking) return;
    this.#questionDueAt = this.#options.clock.now();
    void this.#ask();
  }

  /** Ends its timers and its connection; no listener is called afterwards. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelConnect();
    this.#cancelQuestion();
    this.#held.close();
    this.#pinger.stop();
  }

  async #connect(): Promise<void> {
    const { apiserver, clock, endpoint, timeoutMs } = this.#options;
    const askedAt = clock.now();
    this.#isConnecting = true;
    this.#options.budget.noteConnect(askedAt);
    const outcome = await apiserver.connect(endpoint, timeoutMs);
    this.#isConnecting = false;
    if (this.#isStopped) return;
    this.#scheduleConnect();
    const isTurn = this.#takeNote(outcome);
    const result = this.#toConnectResult(outcome);
    if (result !== null) this.#options.onResult(result, askedAt);
    if (isTurn) this.askSince(clock.now());
    if (outcome.kind === 'open') void this.#checkDrain();
  }

  /** What it shows follows what the connect has shown. */
  async #checkDrain(): Promise<void> {
    const { apiserver, clock, endpoint, timeoutMs, budget, onResult } = this.#options;
    const askedAt = clock.now();
    if (this.#isCheckingDrain || !budget.takeDrainCheck(askedAt)) return;
    this.#isCheckingDrain = true;
    const outcome = await apiserver.checkDrain(endpoint, timeoutMs);
    this.#isCheckingDrain = false;
    if (!this.#isStopped && outcome !== 'unknown') onResult({ kind: outcome }, askedAt);
  }

  /** Answers whether a question is due: how it is now that it comes back, or whether only new connections vanish. */
  #takeNote({ kind }: ConnectOutcome): boolean {
    if (kind === 'untried') return false;
    const [wasAccepting, wasUnresponsive] = [this.#isAccepting, this.#isUnresponsive];
    this.#isAccepting = kind === 'open';
    this.#isUnresponsive = kind === 'silent';
    return (this.#isAccepting && !wasAccepting) || (this.#isUnresponsive && !wasUnresponsive);
  }

  /** The next one of the burst, or an interval after the last was due: timers that are late do not add up, what was missed is not made up for. */
  #scheduleConnect(): void {
    const { clock, intervalMs } = this.#options;
    const [next, ...rest] = this.#burst;
    this.#burst = rest;
    this.#connectDueAt = next === undefined ? this.#connectDueAt + intervalMs : this.#burstAt + next;
    this.#connectDueAt = Math.max(this.#connectDueAt, clock.now());
    this.#waitToConnect();
  }

  #waitToConnect(): void {
    const { clock } = this.#options;
    // Time passes between two readings of the clock.
    const delayMs = Math.max(0, this.#connectDueAt - clock.now());
    this.#cancelConnect = clock.schedule(delayMs, () => void this.#connect());
  }

  #onClose(): void {
    if (this.#isStopped) return;
    const { clock, budget } = this.#options;
    const closedAt = clock.now();
    const wasSettled = closedAt - (this.#answeringSince ?? closedAt) >= settledMs;
    this.#closedAt = closedAt;
    this.#answeringSince = null;
    if (!budget.takeBurst(closedAt)) return;
    this.#beginBurst(closedAt);
    if (!wasSettled) return;
    this.#heldEndedAt = closedAt;
    this.#noteEnd();
  }

  #beginBurst(now: number): void {
    this.#burstAt = now;
    this.#burst = burstMs;
    // The one in progress may have begun before: the burst follows it.
    if (this.#isConnecting) return;
    this.#cancelConnect();
    this.#burst = burstMs.slice(1);
    this.#connectDueAt = this.#burstAt;
    void this.#connect();
  }

  /** Of two ends together. As often as bursts: an apiserver that keeps closing both is not taken out each time. */
  #noteEnd(): void {
    if (Math.abs(this.#heldEndedAt - this.#pingsEndedAt) > togetherMs) return;
    const endedAt = Math.max(this.#heldEndedAt, this.#pingsEndedAt);
    this.#heldEndedAt = -Infinity;
    this.#pingsEndedAt = -Infinity;
    this.#options.onResult({ kind: 'ended' }, endedAt);
  }

  #toConnectResult(outcome: ConnectOutcome): ProbeResult | null {
    switch (outcome.kind) {
      case 'open':
        return outcome;
      case 'refused':
        this.#burst = [];
        return this.#held.isOpen
          ? { kind: 'doubtful', reason: 'connection refused, although an older connection is still open' }
          : { kind: 'refused', reason: `connection refused${this.#describeClose()}` };
      case 'unreachable':
        return { kind: 'unreachable', reason: `no route to it (${outcome.code})` };
      case 'silent':
        return { kind: 'silent', reason: `no answer to TCP connects within ${this.#options.timeoutMs} ms` };
      case 'untried':
        return null;
    }
  }

  #describeClose(): string {
    const ms = Math.round(this.#options.clock.now() - (this.#closedAt ?? -Infinity));
    return ms < questionIntervalMs ? ` ${ms} ms after the probe's connection closed` : '';
  }

  async #ask(): Promise<void> {
    const { clock, budget } = this.#options;
    const askedAt = clock.now();
    this.#cancelQuestion();
    // Who accepts no connection is not asked, but over one that may live.
    const isAsked = this.#isAccepting || (this.#isUnresponsive && this.#held.isOpen);
    if (isAsked && !budget.takeQuestion(askedAt)) {
      this.#waitToAsk(budget.questionFrom);
      return;
    }
    const outcome = isAsked ? await this.#send(askedAt) : null;
    if (this.#isStopped) return;
    const isWanted = isAsked && this.#wantedSince > askedAt;
    this.#waitToAsk(isWanted ? clock.now() : this.#questionDueAt + questionIntervalMs);
    if (outcome === null) return;
    this.#options.onResult(toQuestionResult(outcome, clock.now() - askedAt), askedAt);
  }

  async #send(askedAt: number): Promise<ReadyzOutcome> {
    this.#askedAt = askedAt;
    this.#isAsking = true;
    const outcome = await this.#held.ask(questionLimitMs);
    this.#isAsking = false;
    const isAnswered = outcome.kind === 'ready' || outcome.kind === 'failing';
    if (isAnswered) this.#pinger.noteAnswer();
    this.#answeringSince = isAnswered && this.#held.isOpen ? (this.#answeringSince ?? askedAt) : null;
    return outcome;
  }

  /** One that is late is not made up for. */
  #waitToAsk(dueAt: number): void {
    const { clock } = this.#options;
    const now = clock.now();
    this.#questionDueAt = Math.max(dueAt, now);
    this.#cancelQuestion = clock.schedule(this.#questionDueAt - now, () => void this.#ask());
  }
}

function toQuestionResult(outcome: ReadyzOutcome, tookMs: number): ProbeResult {
  if (outcome.kind === 'silent' || outcome.kind === 'closed') return { kind: 'unanswered' };
  return outcome.kind === 'ready' ? { ...outcome, isPrompt: tookMs <= promptMs } : outcome;
}

/** What the real apiservers are made with. */
interface ApiserverOptions {
  readonly clock: Clock;
  /** Called for each question; null when no CA can be read. */
  readonly findAuthority: () => Authority | null;
  /** Asked for each question to an apiserver that refuses those without; none when left out. */
  readonly readCredentials?: ReadCredentials;
  /** Called once when this process may not make drain checks. */
  readonly onNoDrainCheck?: () => void;
}

/** The real apiservers, over TCP and TLS. */
export function createApiserver({
  clock,
  findAuthority,
  readCredentials = noCredentials,
  onNoDrainCheck = () => undefined,
}: ApiserverOptions): Apiserver {
  const drainChecks = new DrainChecks(clock, onNoDrainCheck);
  return {
    // In order: its end takes nothing from the peer's kernel. kube-apiserver counts either as a TLS handshake error (docs/adr/0029).
    connect: (endpoint, limitMs) => connectOnce(clock, endpoint, { limitMs, end: 'close' }),
    checkDrain: (endpoint, limitMs) => drainChecks.check(endpoint, limitMs),
    openPingConnection,
    hold: (endpoint, onClose) =>
      new TlsConnection({ clock, endpoint, findAuthority, readCredentials, onClose }),
  };
}

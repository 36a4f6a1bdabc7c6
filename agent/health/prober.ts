import type { Endpoint } from '../../lib/net.ts';
import type {
  Apiserver,
  ProbeBudget,
  ProbeResult,
  HeldConnection,
  ReadyzOutcome,
  PingConnection,
} from './apiserver.ts';
import { type Clock, type Cancel, scheduleLimit } from '../../lib/clock.ts';
import type { ConnectOutcome } from '../../lib/http/client.ts';

/**
 * The probes of one apiserver: a TCP connect at each interval, GET /readyz each second on a connection that is held,
 * and a burst of connects when that connection closes, for then the process has most likely died. A connect that was
 * accepted is followed by a drain check, as often as the budget allows. Pings are apart from them, see Pinger.
 */

/** How often and how patiently apiservers are asked. */
export interface ProbeSettings {
  /** From the start of one connect to that of the next (`--probe-interval`). */
  readonly intervalMs: number;
  /** How long a connect may take (`--probe-timeout`). */
  readonly timeoutMs: number;
}

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
    this.#held = options.apiserver.hold(options.endpoint, this.#onClose.bind(this));
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

  /** Has /readyz asked no earlier than then: now or after the question in progress. One since then will do. */
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
    this.#options.budget.connectedAt = askedAt;
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
    if (this.#isCheckingDrain || !budget.take('drainCheck', askedAt)) return;
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
    if (!budget.take('burst', closedAt)) return;
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
    if (isAsked && !budget.take('question', askedAt)) {
      this.#waitToAsk(budget.findStart('question'));
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

/**
 * Whether the process of an apiserver answers at all: a ping, which is the smallest request of HTTP, four times a second on a
 * TLS connection of its own.
 *
 * Goal: a frozen apiserver is known within three seconds.
 * Tension: the kernel of a frozen process continues to accept connections. A slow process answers everything 2 s late. A
 * connection that a firewall has forgotten, and an agent that did not run itself, leave pings without an answer, too.
 * Compromise: missing answers count on two connections at the same time, one of which was made after they began: not even its handshake is
 * answered. They are counted in ticks, and a process that does not run has none.
 */

/** From one tick to the next. */
const tickMs = 250;

/** 2.5 s: one that answers everything 2 s late has half a second to spare. */
const unansweredTicks = 10;

/** The second connection is made a tick after the answers stopped. */
const unansweredHandshakeTicks = unansweredTicks - 1;

/** Who closes connections by habit does so earlier: after each answer, or before any. */
const settledMs = 2000;

/** A process that did not run for a while has old connections, which may have ended meanwhile for that. Answers wait there, so pings count. */
const freshMs = 1000;

interface PingerOptions extends Pick<ProberOptions, 'endpoint' | 'clock' | 'budget'> {
  readonly apiserver: Pick<Apiserver, 'openPingConnection'>;
  /** Whether the last connect was accepted: nobody else is asked. */
  readonly isAccepting: () => boolean;
  /** Called when the peer has ended the connection that is pinged on, and that answered for a while. */
  readonly onEnd: () => void;
  /** Called when nothing was answered for 2.5 s, again while that lasts, and at the first sign of life after it. */
  readonly onResult: (result: ProbeResult, askedAt: number) => void;
}

/** One of its connections. */
interface Line {
  readonly connection: PingConnection;
  readonly openedAt: number;
  /** When the last ping was sent that was answered. */
  provenAt: number;
  isAnswered: boolean;
  /** Ticks since TCP had connected and anything was received on any line. */
  unansweredTicks: number;
}

/** Pings from its creation until it is stopped. Two connections are open at most, and one request is in progress. */
export class Pinger {
  readonly #options: PingerOptions;
  #cancel: Cancel;
  /** Requests are sent on this one. */
  #main: Line | null = null;
  #second: Line | null = null;
  #isWaiting = false;
  #sentAt = -Infinity;
  /** Whether the second line was made for the request that is in progress. */
  #isSecondNew = false;
  #unansweredTicks = 0;
  #unansweredSince = 0;
  #isFrozen = false;

  constructor(options: PingerOptions) {
    this.#options = options;
    this.#cancel = this.#waitForTick();
  }

  /** The apiserver has answered something else: it lives. */
  noteAnswer(): void {
    this.#isFrozen = false;
    this.#beginUnanswered();
  }

  /** Ends its timer and its connections; no listener is called afterwards. */
  stop(): void {
    this.#cancel();
    this.#closeAll();
  }

  /** One that is late is not made up for: a process that was kept from running has not listened meanwhile. */
  #waitForTick(): Cancel {
    return scheduleLimit(this.#options.clock, tickMs, () => {
      this.#cancel = this.#waitForTick();
      this.#tick();
    });
  }

  #tick(): void {
    if (!this.#options.isAccepting()) return;
    this.#main ??= this.#open();
    if (this.#main === null) return;
    if (!this.#isWaiting) {
      // One without an answer yet is kept: apiservers log handshakes that break off.
      if (this.#second?.isAnswered === true) this.#closeSecond();
      this.#isWaiting = true;
      this.#beginUnanswered();
      this.#sentAt = this.#options.clock.now();
      this.#main.connection.send();
      return;
    }
    this.#unansweredTicks += 1;
    const { unansweredTicks: unresponsive } = this.#findSecond();
    if (this.#unansweredTicks >= unansweredTicks && unresponsive >= unansweredHandshakeTicks)
      this.#reportFrozen();
  }

  /** The line whose handshake is unanswered, made now where there is none; its ticks are counted. */
  #findSecond(): Pick<Line, 'unansweredTicks'> {
    const second = this.#second;
    if (second !== null && !second.isAnswered) {
      if (second.connection.isConnected) second.unansweredTicks += 1;
      return second;
    }
    const made = this.#open();
    if (made === null) return { unansweredTicks: 0 };
    second?.connection.close();
    this.#second = made;
    this.#isSecondNew = true;
    return made;
  }

  #open(): Line | null {
    const { apiserver, endpoint, clock, budget } = this.#options;
    const openedAt = clock.now();
    if (!budget.take('pingConnection', openedAt)) return null;
    const line: Line = {
      openedAt,
      connection: apiserver.openPingConnection(endpoint, {
        onReceived: (isAnswer) => {
          this.#receive(line, isAnswer);
        },
        onEnd: () => {
          this.#forget(line);
        },
      }),
      provenAt: -Infinity,
      isAnswered: false,
      unansweredTicks: 0,
    };
    return line;
  }

  #receive(line: Line, isAnswer: boolean): void {
    if (line !== this.#main && line !== this.#second) return;
    line.isAnswered = true;
    this.#beginUnanswered();
    if (line === this.#main && isAnswer) {
      line.provenAt = this.#sentAt;
      this.#isWaiting = false;
      this.#isSecondNew = false;
    } else if (line === this.#second && this.#isSecondNew) {
      // Only the older connection is lost, or both are slow.
      this.#main?.connection.close();
      this.#useSecond();
    }
    if (!this.#isFrozen) return;
    this.#isFrozen = false;
    this.#options.onResult({ kind: 'alive' }, this.#options.clock.now());
  }

  /** A process that is frozen ends no connection, and one that ends them says so by refusing connects. */
  #forget(line: Line): void {
    if (line === this.#second) this.#second = null;
    if (line !== this.#main) return;
    this.#useSecond();
    const now = this.#options.clock.now();
    if (now - line.openedAt >= settledMs && now - line.provenAt <= freshMs) this.#options.onEnd();
  }

  #useSecond(): void {
    this.#main = this.#second;
    this.#second = null;
    this.#isWaiting = false;
  }

  #beginUnanswered(): void {
    this.#unansweredTicks = 0;
    this.#unansweredSince = this.#options.clock.now();
    if (this.#second !== null) this.#second.unansweredTicks = 0;
  }

  /** Begins again with new connections: those of a host that was restarted meanwhile are lost. */
  #reportFrozen(): void {
    this.#isFrozen = true;
    this.#closeAll();
    this.#options.onResult({ kind: 'frozen' }, this.#unansweredSince);
  }

  #closeAll(): void {
    this.#closeSecond();
    this.#main?.connection.close();
    this.#main = null;
    this.#isWaiting = false;
  }

  #closeSecond(): void {
    this.#second?.connection.close();
    this.#second = null;
  }
}

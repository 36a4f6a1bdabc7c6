import type { ConnectOutcome } from '../../../lib/http/client.ts';
import type {
  ReadyzOutcome,
  Apiserver,
  DrainOutcome,
  HeldConnection,
  PingListener,
  PingConnection,
} from '../../../agent/health/apiserver.ts';
import type { Clock } from '../../../lib/clock.ts';
import { FakePingConnection, type PingPeer, closings } from './ping-connection.ts';
import { type Endpoint, formatEndpoint } from '../../../lib/net.ts';

export type Behaviour =
  | 'healthy'
  /** The process is gone, its host answers with resets. */
  | 'refusing'
  /** The host is gone, or the way to it: nothing comes back. */
  | 'silent'
  /** New connections get no answer, open ones live: a connection table on the way is full. */
  | 'clogged'
  /** The way there fails at once, as without a route. */
  | 'unreachable'
  /** Its process ends: its connections are closed, and its host still accepts new ones, and resets them. */
  | 'ending'
  /** Stopped: its kernel accepts connections, and nobody answers. */
  | 'frozen'
  /** Answers each question after 2 s. */
  | 'slow'
  /** Answers 500, as it shuts down. */
  | 'failing'
  /** Answers 500, as its etcd does not answer. */
  | 'ailing'
  /** Answers nobody whom it does not know. */
  | 'secretive'
  /** Answers well, and closes the connection after each answer. */
  | 'curt'
  /** Completes the handshake, and closes the connection before any answer. */
  | 'hanging up';

/** Who hears of what is sent to them, and of what comes back. */
export interface Listener {
  readonly onConnect?: (endpoint: string) => void;
  readonly onConnected?: (endpoint: string, kind: ConnectOutcome['kind']) => void;
  readonly onDrainCheck?: (endpoint: string) => void;
  readonly onPing?: (endpoint: string) => void;
  readonly onPingConnection?: (endpoint: string) => void;
  readonly onQuestion?: (endpoint: string) => void;
  readonly onAnswer?: (endpoint: string, kind: ReadyzOutcome['kind']) => void;
}

const slowMs = 2000;
const roundTripMs = 1;

/** Apiservers in memory, on a clock that tests turn. Counts what is open and under way, and breaks when too much is. */
export class FakeApiservers implements Apiserver {
  readonly #clock: Clock;
  /** Also for held connections. */
  readonly listener: Listener;
  readonly #endpointToBehaviour = new Map<string, Behaviour>();
  readonly #blocked = new Set<string>();
  readonly #drained = new Set<string>();
  readonly #held = new Set<FakeHeld>();
  readonly #pinging = new Map<FakePingConnection, string>();
  readonly #connecting = new Map<string, number>();
  connects = 0;

  constructor(clock: Clock, listener: Listener = {}) {
    this.#clock = clock;
    this.listener = listener;
  }

  get open(): number {
    return [...this.#held].filter(({ isOpen }) => isOpen).length;
  }

  get openForPings(): number {
    return this.#pinging.size;
  }

  /** From now on an apiserver behaves like this. A process that dies takes its connections with it, and its host tells their peers. */
  set(endpoint: string, behaviour: Behaviour): void {
    this.#endpointToBehaviour.set(endpoint, behaviour);
    for (const [connection, to] of this.#pinging) if (to === endpoint) connection.goOn();
    if (behaviour !== 'refusing' && behaviour !== 'ending') return;
    this.closePings(endpoint);
    this.closeHeld(endpoint);
  }

  closePings(endpoint: string): void {
    for (const [connection, to] of this.#pinging) if (to === endpoint) connection.breakOff();
  }

  closeHeld(endpoint: string): void {
    for (const held of this.#held) if (held.endpoint === endpoint) held.breakOff();
  }

  /** A firewall in between refuses new connections to it, and lets the packets of open ones pass. */
  block(endpoint: string): void {
    this.#blocked.add(endpoint);
  }

  drain(endpoint: string, isDrained = true): void {
    if (isDrained) this.#drained.add(endpoint);
    else this.#drained.delete(endpoint);
  }

  isDrained(endpoint: string): boolean {
    return this.#drained.has(endpoint);
  }

  /** How it behaves: healthy until something else is set. */
  behaviourOf(endpoint: string): Behaviour {
    return this.#endpointToBehaviour.get(endpoint) ?? 'healthy';
  }

  async connect(endpoint: Endpoint, limitMs: number): Promise<ConnectOutcome> {
    const text = formatEndpoint(endpoint);
    const underWay = (this.#connecting.get(text) ?? 0) + 1;
    if (underWay > 1) throw new Error(`${underWay} connects to ${text} are under way`);
    this.connects += 1;
    this.listener.onConnect?.(text);
    this.#connecting.set(text, underWay);
    const behaviour = this.behaviourOf(text);
    const isUnresponsive = behaviour === 'silent' || behaviour === 'clogged';
    await this.sleep(isUnresponsive ? limitMs : roundTripMs);
    this.#connecting.delete(text);
    const outcome = this.#toOutcome(text, behaviour);
    this.listener.onConnected?.(text, outcome.kind);
    return outcome;
  }

  async checkDrain(endpoint: Endpoint, limitMs: number): Promise<DrainOutcome> {
    const text = formatEndpoint(endpoint);
    this.listener.onDrainCheck?.(text);
    const kind = this.#toOutcome(text, this.behaviourOf(text)).kind;
    await this.sleep(kind === 'silent' ? limitMs : roundTripMs);
    if (kind !== 'open') return 'unknown';
    return this.isDrained(text) ? 'drained' : 'admitting';
  }

  hold(endpoint: Endpoint, onClose: () => void): HeldConnection {
    const held = new FakeHeld(this, formatEndpoint(endpoint), onClose);
    this.#held.add(held);
    return held;
  }

  openPingConnection(endpoint: Endpoint, listener: PingListener): PingConnection {
    const text = formatEndpoint(endpoint);
    this.listener.onPingConnection?.(text);
    const connection = new FakePingConnection({
      listener,
      findPeer: () => this.#findPeer(text),
      schedule: (delayMs, callback) => void this.#clock.schedule(delayMs, callback),
      onSend: () => this.listener.onPing?.(text),
      onClose: () => this.#pinging.delete(connection),
    });
    this.#pinging.set(connection, text);
    return connection;
  }

  #findPeer(text: string): PingPeer {
    const behaviour = this.behaviourOf(text);
    const isMute = ['silent', 'frozen', 'refusing', 'unreachable', 'ending'].includes(behaviour);
    return {
      isAccepting: this.#toOutcome(text, behaviour).kind === 'open',
      answerMs: isMute ? null : behaviour === 'slow' ? slowMs : 0,
      closes: closings[behaviour] ?? 'never',
    };
  }

  #toOutcome(text: string, behaviour: Behaviour): ConnectOutcome {
    if (behaviour === 'refusing' || this.#blocked.has(text)) return { kind: 'refused' };
    if (behaviour === 'unreachable') return { kind: 'unreachable', code: 'EHOSTUNREACH' };
    return { kind: behaviour === 'silent' || behaviour === 'clogged' ? 'silent' : 'open' };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.schedule(ms, resolve));
  }

  /** Used by a held connection that is closed for good. */
  forget(held: FakeHeld): void {
    this.#held.delete(held);
  }
}

class FakeHeld implements HeldConnection {
  readonly endpoint: string;
  readonly #apiservers: FakeApiservers;
  readonly #onClose: () => void;
  #isAsking = false;
  #breaks = 0;
  isOpen = false;

  constructor(apiservers: FakeApiservers, endpoint: string, onClose: () => void) {
    this.#apiservers = apiservers;
    this.endpoint = endpoint;
    this.#onClose = onClose;
  }

  async ask(limitMs: number): Promise<ReadyzOutcome> {
    if (this.#isAsking) throw new Error(`two questions to ${this.endpoint} are under way`);
    this.#isAsking = true;
    const { listener } = this.#apiservers;
    listener.onQuestion?.(this.endpoint);
    const outcome = await this.#answer(limitMs);
    this.#isAsking = false;
    listener.onAnswer?.(this.endpoint, outcome.kind);
    return outcome;
  }

  close(): void {
    this.isOpen = false;
    this.#apiservers.forget(this);
  }

  breakOff(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#breaks += 1;
    this.#onClose();
  }

  async #answer(limitMs: number): Promise<ReadyzOutcome> {
    const behaviour = this.#apiservers.behaviourOf(this.endpoint);
    const isMute = behaviour === 'silent' || behaviour === 'frozen';
    const breaks = this.#breaks;
    await this.#apiservers.sleep(isMute ? limitMs : behaviour === 'slow' ? slowMs : roundTripMs);
    if (this.#breaks !== breaks) return { kind: 'closed' };
    if (isMute) {
      this.isOpen = false;
      return { kind: 'silent' };
    }
    if (['refusing', 'unreachable', 'ending'].includes(behaviour)) return { kind: 'closed' };
    this.isOpen = true;
    if (behaviour in closings) this.breakOff();
    return toAnswer(behaviour);
  }
}

function toAnswer(behaviour: Behaviour): ReadyzOutcome {
  if (behaviour === 'hanging up') return { kind: 'closed' };
  if (behaviour === 'secretive') return { kind: 'ready', livenessOnly: '/readyz answers 401' };
  if (behaviour !== 'failing' && behaviour !== 'ailing') return { kind: 'ready' };
  const [check, cause] =
    behaviour === 'failing' ? (['shutdown', 'shutdown'] as const) : (['etcd', 'other'] as const);
  return { kind: 'failing', reason: `/readyz answers 500: [-]${check} failed`, cause };
}

import type { PingListener, PingConnection } from '../../../agent/health/apiserver.ts';

/** How the process at the other end does now. */
export interface PingPeer {
  readonly isAccepting: boolean;
  /** In how long its process answers; null while it does not. */
  readonly answerMs: number | null;
  readonly closes: 'after the handshake' | 'after an answer' | 'never';
}

/** The behaviours of which one closes connections by itself. */
export const closings: Readonly<Record<string, PingPeer['closes']>> = {
  curt: 'after an answer',
  'hanging up': 'after the handshake',
};

interface FakePingOptions {
  readonly listener: PingListener;
  readonly findPeer: () => PingPeer;
  readonly schedule: (delayMs: number, callback: () => void) => void;
  readonly onSend: () => void;
  readonly onClose: () => void;
}

/** One connection for pings to an apiserver in memory: what is not answered waits until its process answers again. */
export class FakePingConnection implements PingConnection {
  readonly isConnected: boolean;
  readonly #options: FakePingOptions;
  #hasShaken = false;
  #isAsked = false;
  #isWorking = false;
  #isClosed = false;

  constructor(options: FakePingOptions) {
    this.#options = options;
    this.isConnected = options.findPeer().isAccepting;
    this.goOn();
  }

  send(): void {
    if (this.#isAsked) throw new Error('two pings are under way on one connection');
    this.#isAsked = true;
    this.#options.onSend();
    this.goOn();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.onClose();
  }

  breakOff(): void {
    if (this.#isClosed) return;
    this.close();
    this.#options.listener.onEnd();
  }

  /** To be told when its peer behaves otherwise. */
  goOn(): void {
    const { answerMs } = this.#options.findPeer();
    const hasWork = this.isConnected && (!this.#hasShaken || this.#isAsked);
    if (answerMs === null || !hasWork || this.#isWorking || this.#isClosed) return;
    this.#isWorking = true;
    const work = () => {
      this.#isWorking = false;
      this.#work();
    };
    // A good answer needs no timer of its own: days of them are simulated.
    if (answerMs === 0) queueMicrotask(work);
    else this.#options.schedule(answerMs, work);
  }

  #work(): void {
    const { answerMs, closes } = this.#options.findPeer();
    if (this.#isClosed || answerMs === null) return;
    const isAnswer = this.#hasShaken;
    this.#hasShaken = true;
    if (isAnswer) this.#isAsked = false;
    this.#options.listener.onReceived(isAnswer);
    if (closes === (isAnswer ? 'after an answer' : 'after the handshake')) this.breakOff();
    this.goOn();
  }
}

import { type Endpoint, formatEndpoint } from '../../lib/net.ts';
import type { Apiserver, ProbeBudget, ProbeResult, PingConnection, PingListener } from './apiserver.ts';
import { type Clock, type Cancel, scheduleLimit } from '../../lib/clock.ts';
import { connect, type TLSSocket } from 'node:tls';

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
export const settledMs = 2000;

/** A process that did not run for a while has old connections, which may have ended meanwhile for that. Answers wait there, so pings count. */
const freshMs = 1000;

/** The dependencies of a pinger, and its listener. */
interface PingerOptions {
  readonly endpoint: Endpoint;
  readonly apiserver: Pick<Apiserver, 'openPingConnection'>;
  readonly clock: Clock;
  readonly budget: ProbeBudget;
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
  /** Whether a request is in progress. */
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
    if (!budget.takePingConnection(openedAt)) return null;
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

/** Opens a connection for signs of life. No certificate is verified: nothing is sent but the smallest request. */
export function openPingConnection(endpoint: Endpoint, listener: PingListener): PingConnection {
  const { address, port } = endpoint;
  const socket = connect({ host: address, port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  socket.setNoDelay(true);
  listen(socket, listener);
  // RFC 9110, section 9.3.7: useful as a "ping". Go's net/http answers it before any handler: no etcd, no audit, no queue.
  const request = `OPTIONS * HTTP/1.1\r\nHost: ${formatEndpoint(endpoint)}\r\n\r\n`;
  return {
    get isConnected() {
      return !socket.connecting;
    },
    send: () => {
      socket.write(request);
    },
    close: () => {
      socket.removeAllListeners().on('error', () => undefined);
      socket.destroy();
    },
  };
}

function listen(socket: TLSSocket, { onReceived, onEnd }: PingListener): void {
  const receive = () => {
    onReceived(false);
  };
  socket
    // After the server's first message of the handshake: one that is slow takes several.
    .on('keylog', receive)
    .on('secureConnect', receive)
    .on('data', () => {
      onReceived(true);
    })
    .on('error', () => undefined)
    .on('close', onEnd);
}

import { Agent, get } from 'node:https';
import { type IncomingMessage } from 'node:http';
import { type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Clock, scheduleLimit } from '../../lib/control/clock.ts';
import { type Authority } from '../../lib/files/authority.ts';
import { connectOnce } from '../../lib/probe/connect.ts';
import { type Apiserver, type HeldConnection, type ReadyzOutcome } from './apiserver.ts';
import { DrainChecks } from './drain-checks.ts';
import { openPingConnection } from './ping-connection.ts';
import { apiserverProbe, type HttpsGet, toRequest } from './probe-handler.ts';

/** What the real apiservers are made with. */
export interface ApiserverOptions {
  readonly clock: Clock;
  /** Asked for each new TLS connection; null does without. */
  readonly findAuthority: () => Authority | null;
  /** Told once when this process may not make drain checks. */
  readonly onNoDrainCheck?: () => void;
}

/** The real apiservers, over TCP and TLS. */
export function createApiserver({
  clock,
  findAuthority,
  onNoDrainCheck = () => undefined,
}: ApiserverOptions): Apiserver {
  const drainChecks = new DrainChecks(clock, onNoDrainCheck);
  return {
    // In order: kube-apiserver logs resets, and a connection that was only opened and closed it does not.
    connect: (endpoint, limitMs) => connectOnce(clock, endpoint, { limitMs, end: 'close' }),
    checkDrain: (endpoint, limitMs) => drainChecks.check(endpoint, limitMs),
    openPingConnection,
    hold: (endpoint, onClose) => new TlsConnection({ clock, endpoint, findAuthority, onClose }),
  };
}

/** The answer of an apiserver in trouble lists its checks, a line each: far less than this. */
const maxBodyLength = 16_384;

interface TlsConnectionOptions {
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly findAuthority: () => Authority | null;
  readonly onClose: () => void;
}

class TlsConnection implements HeldConnection {
  readonly #options: TlsConnectionOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1, maxCachedSessions: 0 });
  #authority: Authority | null = null;
  #socket: TLSSocket | null = null;

  constructor(options: TlsConnectionOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#socket !== null;
  }

  ask(limitMs: number): Promise<ReadyzOutcome> {
    const { clock, endpoint } = this.#options;
    if (this.#socket === null) this.#authority = this.#options.findAuthority();
    const ca = this.#authority?.certificates;
    return new Promise((resolve) => {
      const end = (outcome: ReadyzOutcome) => {
        cancel();
        resolve(outcome);
      };
      const request = get({
        ...toRequest(apiserverProbe, endpoint),
        agent: this.#agent,
        // Verified by us below: an answer from a stranger is worth a sentence, a failed handshake is not.
        rejectUnauthorized: false,
        ...(ca === undefined ? {} : { ca }),
      });
      const startLimit = () =>
        scheduleLimit(clock, limitMs, () => {
          end({ kind: 'silent' });
          this.#giveUp();
          request.destroy();
        });
      let cancel = startLimit();
      request.on('socket', (socket) => {
        if (!(socket instanceof TLSSocket) || socket === this.#socket) return;
        this.#adopt(socket);
        // Who answers everything late answers the handshake late, and then the question.
        socket.once('secureConnect', () => {
          cancel();
          cancel = startLimit();
        });
      });
      request.on('error', () => {
        end({ kind: 'closed' });
      });
      request.on('response', (response) => {
        // After the body the response has no socket any more.
        const distrust = this.#describeDistrust(response.socket);
        void readBody(response).then((body) => {
          end(distrust === null ? judge(response, body) : { kind: 'failing', reason: distrust, isOwn: true });
        });
      });
    });
  }

  close(): void {
    this.#giveUp();
    this.#agent.destroy();
  }

  /** Why the peer is none of this cluster's apiservers, or null. That a certificate does not list this very address is no matter. */
  #describeDistrust(socket: Socket): string | null {
    if (this.#authority === null || !(socket instanceof TLSSocket) || socket.authorized) return null;
    const code = String(socket.authorizationError);
    return code === 'ERR_TLS_CERT_ALTNAME_INVALID'
      ? null
      : `its certificate is not signed by the CA in ${this.#authority.file} (${code})`;
  }

  #adopt(socket: TLSSocket): void {
    socket.once('secureConnect', () => {
      this.#socket = socket;
    });
    socket.once('close', () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#options.onClose();
    });
  }

  /** Its end is nobody's news from now on. */
  #giveUp(): void {
    this.#socket = null;
  }
}

/** What an answer to a GET says, of which the body is known as far as it came. Pure and total. */
export function judge(
  { statusCode = 0, complete }: Pick<IncomingMessage, 'statusCode' | 'complete'>,
  body: string,
  { path }: Pick<HttpsGet, 'path'> = apiserverProbe.httpsGet,
): ReadyzOutcome {
  if (!complete) return { kind: 'closed' };
  if (statusCode === 200 || statusCode === 401 || statusCode === 403) return { kind: 'ready' };
  return {
    kind: 'failing',
    reason: `${path} answers ${statusCode}${describeChecks(body)}`,
    // During --shutdown-delay-duration, kube-apiserver 1.20 and later.
    isOwn: /^\[-\]shutdown failed/m.test(body),
  };
}

/** The body as far as it is of interest; what came before the connection broke, when it did. */
function readBody(response: IncomingMessage): Promise<string> {
  return new Promise((resolve) => {
    let body = '';
    response.setEncoding('utf8').on('data', (chunk: string) => {
      if (body.length < maxBodyLength) body += chunk;
    });
    response
      .on('error', () => undefined)
      .on('close', () => {
        resolve(body);
      });
  });
}

/** `: [-]shutdown failed`: the checks that fail, in kube-apiserver's own words (staging/src/k8s.io/apiserver/pkg/server/healthz). */
function describeChecks(body: string): string {
  const failed = [...body.matchAll(/^\[-\][\w/.-]{1,80} failed/gm)].map(([check]) => check);
  return failed.length === 0 ? '' : `: ${failed.slice(0, 3).join(', ')}`;
}

import { type Clock, scheduleLimit } from '../../lib/clock.ts';
import { type Endpoint, drainPorts, drainPortCount, formatEndpoint } from '../../lib/net.ts';
import {
  drainCheckMs,
  type ReadyzOutcome,
  type HeldConnection,
  type Apiserver,
  type PingConnection,
  type PingListener,
} from './apiserver.ts';
import { toReadyzRequest, connectOnce, type ConnectOutcome, readyzPath } from '../../lib/http/client.ts';
import type { Authority } from '../../lib/files.ts';
import { Agent, get } from 'node:https';
import { checkServerIdentity, TLSSocket, type PeerCertificate, connect } from 'node:tls';
import type { ApiAccess, ReadAccess } from '../../lib/kubernetes/route.ts';
import type { IncomingMessage } from 'node:http';

/**
 * Whether the host of an apiserver is drained: `vipnat drain` there refuses connections from the drain ports.
 *
 * Goal: an operator takes a master out of use for all agents, without credentials and without a port more.
 * Tension: a dead apiserver refuses too, a firewall may let such source ports not pass, and a port may be taken here.
 * Compromise: only a refusal counts, and only if a connection from an ordinary port was accepted after it.
 */

/** Another program may have a port, or this host's connection from it to the same apiserver was closed within the last minute. */
const maxTries = 3;

/** Far from the port before it: that one's neighbours are the next checks'. */
const strideToNext = 13;

/** Makes drain checks. `onDenied` is called once when this process may not use ports below 1024. */
function createDrainCheck(clock: Clock, onDenied: () => void): Apiserver['checkDrain'] {
  let isDenied = false;
  return async (endpoint, limitMs) => {
    const outcome = await connectFromDrainPort(clock, endpoint, limitMs);
    if (outcome.kind === 'untried' && outcome.code === 'EACCES' && !isDenied) {
      isDenied = true;
      onDenied();
    }
    if (outcome.kind === 'open') return 'admitting';
    if (outcome.kind !== 'refused') return 'unknown';
    const ordinary = await connectOnce(clock, endpoint, { limitMs, end: 'close' });
    return ordinary.kind === 'open' ? 'drained' : 'unknown';
  };
}

async function connectFromDrainPort(clock: Clock, endpoint: Endpoint, limitMs: number) {
  // The time of day: also the next process takes other ports than this one did within the last minute.
  const turn = Math.floor(clock.date().getTime() / drainCheckMs);
  let outcome: ConnectOutcome = { kind: 'untried', code: 'EADDRINUSE' };
  for (let tries = 0; tries < maxTries && isTaken(outcome); tries += 1) {
    const localPort = drainPorts.first + ((turn + tries * strideToNext) % drainPortCount);
    outcome = await connectOnce(clock, endpoint, { limitMs, end: 'close', localPort });
  }
  return outcome;
}

function isTaken(outcome: ConnectOutcome): boolean {
  return outcome.kind === 'untried' && ['EADDRINUSE', 'EADDRNOTAVAIL'].includes(outcome.code);
}

/** What a handshake was made by. */
interface Basis {
  readonly authority: Authority | null;
  /** How far the time of day is before the monotonic clock: it changes when the clock is set. */
  readonly dateAheadMs: number;
  readonly credentials: ProbeCredentials | null;
}

/** NTP slews by less than this within hours. */
const clockSetMs = 1000;

/** Whether a handshake would be made by the same. Pure. */
function isSameHandshake(one: Basis, other: Basis): boolean {
  const isSameTls = (credentials: ProbeCredentials | null) => JSON.stringify(credentials?.tls ?? null);
  return (
    one.authority?.certificates === other.authority?.certificates &&
    Math.abs(one.dateAheadMs - other.dateAheadMs) < clockSetMs &&
    one.credentials?.serverName === other.credentials?.serverName &&
    isSameTls(one.credentials) === isSameTls(other.credentials)
  );
}

/** Without credentials vipnat itself verifies the peer: another's certificate is worth a sentence. */
function createAgent({ authority, credentials }: Basis): Agent {
  const common = { keepAlive: true, maxSockets: 1, maxCachedSessions: 0, ca: authority?.certificates };
  if (credentials === null) return new Agent({ ...common, rejectUnauthorized: false });
  const { serverName, tls } = credentials;
  return new Agent({
    ...{ ...common, ...tls, rejectUnauthorized: true },
    checkServerIdentity: (_host, certificate) => checkServerIdentity(serverName, certificate),
  });
}

/** Why the peer is none of this cluster's apiservers, or null. That a certificate does not list this very address is no matter. */
function describeDistrust(socket: unknown, { authority }: Basis): string | null {
  if (authority === null || !(socket instanceof TLSSocket)) return null;
  // Node has a code here, whatever its types say; null before the end of a handshake.
  const code: unknown = socket.authorizationError;
  if (typeof code !== 'string' || code === 'ERR_TLS_CERT_ALTNAME_INVALID') return null;
  return dateCodes.has(code)
    ? `its certificate is not valid at the time that this node's clock tells (${code})`
    : `its certificate is not signed by the CA in ${authority.file} (${code})`;
}

/** OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED, as Node names them. */
const dateCodes: ReadonlySet<string> = new Set(['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED']);

/** What an apiserver is asked with that answers nobody whom it does not know. */
interface ProbeCredentials {
  /** Where they are from, for people. */
  readonly origin: string;
  /** The name or address that the certificate of an apiserver must be valid for. */
  readonly serverName: string;
  /** The certificate is part of a handshake. */
  readonly tls: Pick<ApiAccess['tls'], 'cert' | 'key'>;
  /** A token is part of each question. */
  readonly headers: ApiAccess['headers'];
  /** Differs where anything of them does. */
  readonly text: string;
}

/** The credentials of now; null without any that can be used. Never rejects. */
type ReadCredentials = () => Promise<ProbeCredentials | null>;

/** As client-go reads a token again (rest/token_source.go), which is rotated long before it ends. */
const restMs = 10_000;

const noCredentials: ReadCredentials = () => Promise.resolve(null);

/** Reads credentials when somebody needs them, and again after ten seconds. What is wrong with them is for the API's source to say. */
export function createCredentialsReader(readAccess: ReadAccess | null, clock: Clock): ReadCredentials {
  if (readAccess === null) return noCredentials;
  let readAt = -Infinity;
  let reading: Promise<ProbeCredentials | null> = Promise.resolve(null);
  return () => {
    if (clock.now() - readAt >= restMs) {
      readAt = clock.now();
      reading = readAccess().then(toCredentials, () => null);
    }
    return reading;
  };
}

function toCredentials({ origin, serverName, tls: { cert, key }, headers }: ApiAccess): ProbeCredentials {
  const tls = { ...(cert === undefined ? {} : { cert }), ...(key === undefined ? {} : { key }) };
  const text = JSON.stringify([serverName, tls, headers]);
  return { origin, serverName, tls, headers, text };
}

/** The answer of an apiserver in trouble lists its checks, a line each: far less than this. */
const maxBodyLength = 16_384;

/**
 * What an answer to a GET says, of which the body is known as far as it came. `livenessOnly` of one that is refused is the beginning of a
 * phrase: `/readyz answers 401`. Pure and total.
 */
export function judge(
  { statusCode = 0, complete }: Pick<IncomingMessage, 'statusCode' | 'complete'>,
  body: string,
): ReadyzOutcome {
  if (!complete) return { kind: 'closed' };
  if (statusCode === 200) return { kind: 'ready' };
  const detail = `${readyzPath} answers ${statusCode}`;
  // kube-apiserver asks who somebody is before it asks how itself is.
  if (statusCode === 401 || statusCode === 403) return { kind: 'ready', livenessOnly: detail };
  return {
    kind: 'failing',
    reason: `${detail}${describeChecks(body)}`,
    // During --shutdown-delay-duration, kube-apiserver 1.20 and later.
    cause: /^\[-\]shutdown failed/m.test(body) ? 'shutdown' : 'other',
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

/**
 * The TLS connection that one apiserver is asked GET /readyz on.
 *
 * Goal: an answer is judged by the CA, the clock and the credentials that this host has now.
 * Tension: TLS verifies at the handshake alone, and a connection is held for days. An apiserver may answer no client that it does
 * not know, and credentials must reach no other server.
 * Compromise: a connection ends with what it was verified by, and with an answer that is not accepted. The first question is
 * asked without credentials. They are sent only after an answer of 401 or 403, on a connection that verifies its peer before
 * anything is sent.
 */

interface TlsConnectionOptions extends Required<Omit<ApiserverOptions, 'onNoDrainCheck'>> {
  readonly endpoint: Endpoint;
  readonly onClose: () => void;
}

/** Whoever refuses credentials logs each 401. Of 403 it is not known whether its roles were read already. */
const restAfter401Ms = 60_000;
const restAfter403Ms = 5000;

/** How one request ended. */
type Reply =
  | { readonly kind: 'silent' }
  | { readonly kind: 'closed'; readonly socket: unknown }
  | {
      readonly kind: 'answered';
      readonly socket: unknown;
      readonly response: IncomingMessage;
      readonly body: string;
    };

class TlsConnection implements HeldConnection {
  readonly #options: TlsConnectionOptions;
  #agent: Agent | null = null;
  #basis: Basis | null = null;
  #socket: TLSSocket | null = null;
  /** The verified certificate of one that refused a question without credentials. */
  #refusing: PeerCertificate | null = null;
  /** Which credentials it refused last. */
  #refused: { readonly text: string; readonly status: number; readonly at: number } | null = null;
  #isClosed = false;

  constructor(options: TlsConnectionOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#socket !== null;
  }

  async ask(limitMs: number): Promise<ReadyzOutcome> {
    const chosen = await this.#chooseCredentials();
    if (this.#isClosed) return { kind: 'closed' };
    const basis = this.#renewBasis(chosen.credentials);
    const { credentials } = basis;
    const reply = await this.#exchange(limitMs, basis);
    if (reply.kind === 'silent') return reply;
    // With credentials, the handshake is where it ends.
    const isReported = reply.kind === 'answered' || credentials !== null;
    const distrust = isReported ? describeDistrust(reply.socket, basis) : null;
    if (distrust !== null) {
      this.#refusing = null;
      this.#end();
      return { kind: 'failing', reason: distrust, cause: 'distrust' };
    }
    if (reply.kind === 'closed') {
      // Another process may be there, with another certificate.
      this.#refusing = null;
      return { kind: 'closed' };
    }
    const outcome = judge(reply.response, reply.body);
    if (outcome.kind === 'ready' && outcome.livenessOnly !== undefined)
      return await this.#weighRefusal(reply, basis, outcome.livenessOnly);
    // It tells everybody.
    if (credentials === null) this.#refusing = null;
    return outcome;
  }

  close(): void {
    this.#isClosed = true;
    this.#end();
  }

  /** What to ask with; without any, why. */
  async #chooseCredentials(): Promise<{
    readonly credentials: ProbeCredentials | null;
    readonly why: string;
  }> {
    const none = (why: string) => ({ credentials: null, why });
    if (this.#refusing === null) return none('vipnat has no CA to verify its certificate by');
    const credentials = await this.#options.readCredentials();
    if (credentials === null) return none('vipnat has none');
    const { origin, serverName, text } = credentials;
    const refused = this.#refused;
    const restMs = refused?.status === 401 ? restAfter401Ms : restAfter403Ms;
    const isRefused = refused?.text === text && this.#options.clock.now() - refused.at < restMs;
    if (isRefused) return none(`${refused.status} to the credentials of ${origin}`);
    return checkServerIdentity(serverName, this.#refusing) === undefined
      ? { credentials, why: '' }
      : none(`its certificate is not valid for ${serverName}, the server of ${origin}`);
  }

  /** Ends a connection whose handshake would be another one now. Answers what the connection has, or will have. */
  #renewBasis(credentials: ProbeCredentials | null): Basis {
    const { clock, findAuthority } = this.#options;
    const before = this.#socket === null ? null : this.#basis;
    // A file that is not there for a moment takes nothing back.
    const authority = findAuthority() ?? before?.authority ?? null;
    const now: Basis = {
      authority,
      dateAheadMs: clock.date().getTime() - clock.now(),
      // Without a CA, the ones that Node trusts would do.
      credentials: authority === null ? null : credentials,
    };
    if (before !== null && isSameHandshake(before, now)) {
      this.#basis = { ...before, credentials: now.credentials };
    } else {
      this.#end();
      this.#basis = now;
    }
    return this.#basis;
  }

  #exchange(limitMs: number, basis: Basis): Promise<Reply> {
    const { clock, endpoint } = this.#options;
    return new Promise((resolve) => {
      const end = (reply: Reply) => {
        cancel();
        resolve(reply);
      };
      this.#agent ??= createAgent(basis);
      const headers = basis.credentials?.headers ?? {};
      const request = get({ ...toReadyzRequest(endpoint), agent: this.#agent, headers });
      const startLimit = () =>
        scheduleLimit(clock, limitMs, () => {
          end({ kind: 'silent' });
          // Its end is nobody's news from now on.
          this.#socket = null;
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
        end({ kind: 'closed', socket: request.socket });
      });
      request.on('response', (response) => {
        // After the body the response has no socket any more.
        const { socket } = response;
        void readBody(response).then((body) => {
          end({ kind: 'answered', socket, response, body });
        });
      });
    });
  }

  /** An answer of 401 or 403 says that the process lives. The next question may be asked with credentials. */
  async #weighRefusal(
    { response, socket }: Extract<Reply, { kind: 'answered' }>,
    { authority, credentials }: Basis,
    refusal: string,
  ): Promise<ReadyzOutcome> {
    const { statusCode: status = 0 } = response;
    if (credentials !== null) {
      this.#refused = { text: credentials.text, status, at: this.#options.clock.now() };
      return { kind: 'ready', livenessOnly: `${refusal} to the credentials of ${credentials.origin}` };
    }
    const isVerified = authority !== null && socket instanceof TLSSocket;
    this.#refusing = isVerified ? socket.getPeerCertificate() : null;
    const { credentials: next, why } = await this.#chooseCredentials();
    return next === null
      ? { kind: 'ready', livenessOnly: `${refusal} without credentials, and ${why}` }
      : { kind: 'ready' };
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

  #end(): void {
    this.#socket = null;
    this.#agent?.destroy();
    this.#agent = null;
  }
}

interface ApiserverOptions {
  readonly clock: Clock;
  /** Called for each question; null when no CA can be read. */
  readonly findAuthority: () => Authority | null;
  /** Asked for each question to an apiserver that refuses those without; none when left out. */
  readonly readCredentials?: ReadCredentials;
  /** Called once when this process may not make drain checks. */
  readonly onNoDrainCheck?: (() => void) | undefined;
}

/** The real apiservers, over TCP and TLS. */
export function createApiserver(options: ApiserverOptions): Apiserver {
  const { clock, findAuthority, readCredentials = noCredentials, onNoDrainCheck = () => undefined } = options;
  return {
    // In order: its end takes nothing from the peer's kernel. kube-apiserver counts either as a TLS handshake error (docs/adr/0010).
    connect: (endpoint, limitMs) => connectOnce(clock, endpoint, { limitMs, end: 'close' }),
    checkDrain: createDrainCheck(clock, onNoDrainCheck),
    openPingConnection,
    hold: (endpoint, onClose) =>
      new TlsConnection({ clock, endpoint, findAuthority, readCredentials, onClose }),
  };
}

/** Opens a connection for signs of life. No certificate is verified: nothing is sent but the smallest request. */
export function openPingConnection(endpoint: Endpoint, { onReceived, onEnd }: PingListener): PingConnection {
  const { address, port } = endpoint;
  const socket = connect({ host: address, port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  socket.setNoDelay(true);
  const receive = onReceived.bind(null, false);
  socket
    // After the server's first message of the handshake: one that is slow takes several.
    .on('keylog', receive)
    .on('secureConnect', receive)
    .on('data', onReceived.bind(null, true))
    .on('error', () => undefined)
    .on('close', onEnd);
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

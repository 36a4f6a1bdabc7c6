/**
 * The TLS connection that one apiserver is asked GET /readyz on.
 *
 * Goal: an answer is judged by the CA, the clock and the credentials that this host has now.
 * Tension: TLS verifies at the handshake alone, and a connection is held for days. An apiserver may answer nobody whom it does
 * not know, and credentials must reach no stranger.
 * Compromise: a connection ends with what it was verified by, and with an answer that is not believed. The first question is
 * asked without credentials. They are sent only after an answer of 401 or 403, on a connection that verifies its peer before
 * anything is sent.
 */
import { type IncomingMessage } from 'node:http';
import { type Agent, get } from 'node:https';
import { checkServerIdentity, type PeerCertificate, TLSSocket } from 'node:tls';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Clock, scheduleLimit } from '../../lib/control/clock.ts';
import { type Authority } from '../../lib/files/authority.ts';
import { type HeldConnection, type ReadyzOutcome } from './apiserver.ts';
import { type Basis, createAgent, describeDistrust, isSameHandshake } from './handshake.ts';
import { type ProbeCredentials, type ReadCredentials } from './probe-credentials.ts';
import { apiserverProbe, toRequest } from '../../lib/probe/probe-handler.ts';
import { judge, readBody } from './readyz-answer.ts';

/** What it is made with. */
export interface TlsConnectionOptions {
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly findAuthority: () => Authority | null;
  readonly readCredentials: ReadCredentials;
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

/** The real held connection. */
export class TlsConnection implements HeldConnection {
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
    const isTold = reply.kind === 'answered' || credentials !== null;
    const distrust = isTold ? describeDistrust(reply.socket, basis) : null;
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
      const request = get({ ...toRequest(apiserverProbe, endpoint), agent: this.#agent, headers });
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

  /** Its end is nobody's news from now on. */
  #giveUp(): void {
    this.#socket = null;
  }

  #end(): void {
    this.#giveUp();
    this.#agent?.destroy();
    this.#agent = null;
  }
}

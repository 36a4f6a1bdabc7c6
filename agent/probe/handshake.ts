import { Agent } from 'node:https';
import { checkServerIdentity, TLSSocket } from 'node:tls';
import { type Authority } from '../../lib/files/authority.ts';
import { type ProbeCredentials } from './probe-credentials.ts';

/** What a handshake was made by. */
export interface Basis {
  readonly authority: Authority | null;
  /** How far the time of day is before the monotonic clock: it changes when the clock is set. */
  readonly dateAheadMs: number;
  readonly credentials: ProbeCredentials | null;
}

/** NTP slews by less than this within hours. */
const clockSetMs = 1000;

/** Whether a handshake would be made by the same. Pure. */
export function isSameHandshake(one: Basis, other: Basis): boolean {
  const isSameTls = (credentials: ProbeCredentials | null) => JSON.stringify(credentials?.tls ?? null);
  return (
    one.authority?.certificates === other.authority?.certificates &&
    Math.abs(one.dateAheadMs - other.dateAheadMs) < clockSetMs &&
    one.credentials?.serverName === other.credentials?.serverName &&
    isSameTls(one.credentials) === isSameTls(other.credentials)
  );
}

/** All of its connections are made alike. Without credentials the peer is verified by us: an answer from a stranger is worth a sentence, a failed handshake is not. */
export function createAgent({ authority, credentials }: Basis): Agent {
  const common = { keepAlive: true, maxSockets: 1, maxCachedSessions: 0, ca: authority?.certificates };
  if (credentials === null) return new Agent({ ...common, rejectUnauthorized: false });
  const { serverName, tls } = credentials;
  return new Agent({
    ...{ ...common, ...tls, rejectUnauthorized: true },
    checkServerIdentity: (_host, certificate) => checkServerIdentity(serverName, certificate),
  });
}

/** Why the peer is none of this cluster's apiservers, or null. That a certificate does not list this very address is no matter. */
export function describeDistrust(socket: unknown, { authority }: Basis): string | null {
  if (authority === null || !(socket instanceof TLSSocket)) return null;
  // Node has a code here, whatever its types say; null before the end of a handshake.
  const code: unknown = socket.authorizationError;
  if (typeof code !== 'string') return null;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return null;
  return dateCodes.has(code)
    ? `its certificate is not valid at the time that this node's clock tells (${code})`
    : `its certificate is not signed by the CA in ${authority.file} (${code})`;
}

/** OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED, as Node names them. */
const dateCodes: ReadonlySet<string> = new Set(['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED']);

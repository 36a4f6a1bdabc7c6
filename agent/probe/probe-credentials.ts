import { type Clock } from '../../lib/control/clock.ts';
import { type ApiAccess, type ReadAccess } from '../../lib/kubernetes/access.ts';

/** What an apiserver is asked with that answers nobody whom it does not know. */
export interface ProbeCredentials {
  /** Where they are from, for people. */
  readonly origin: string;
  /** The name or address that the certificate of an apiserver must be valid for. */
  readonly serverName: string;
  /** The certificate is part of a handshake. */
  readonly tls: Pick<ApiAccess['tls'], 'cert' | 'key'>;
  /** A token is part of each question. */
  readonly headers: Readonly<Record<string, string>>;
  /** Differs where anything of them does. */
  readonly text: string;
}

/** The credentials of now; null without any that can be used. Never rejects. */
export type ReadCredentials = () => Promise<ProbeCredentials | null>;

/** As client-go reads a token again (rest/token_source.go), which is rotated long before it ends. */
const restMs = 10_000;

/** Without any. */
export const noCredentials: ReadCredentials = () => Promise.resolve(null);

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

import { type Clock } from '../../lib/control/clock.ts';
import { type Authority } from '../../lib/files/authority.ts';
import { connectOnce } from '../../lib/probe/connect.ts';
import { type Apiserver } from './apiserver.ts';
import { DrainChecks } from './drain-checks.ts';
import { TlsConnection } from './held-connection.ts';
import { openPingConnection } from './ping-connection.ts';
import { noCredentials, type ReadCredentials } from './probe-credentials.ts';

/** What the real apiservers are made with. */
export interface ApiserverOptions {
  readonly clock: Clock;
  /** Asked for each question; null does without. */
  readonly findAuthority: () => Authority | null;
  /** Asked for each question to an apiserver that refuses those without; none when left out. */
  readonly readCredentials?: ReadCredentials;
  /** Told once when this process may not make drain checks. */
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

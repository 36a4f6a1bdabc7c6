/**
 * Waits for a role in this network namespace.
 *
 * Goal: the next program takes over the moment the last one has ended, however it ended, and any number may wait.
 * Tension: nothing tells when an abstract name gets free, and its holder may be an older version, hang, or be no such program.
 * Compromise: a connection on which nothing is said ends with its holder. Holders of every version end it after some
 * seconds too, so each end is a hint to try, no more. The kernel gives the name to one of all who try.
 */
import { connect } from 'node:net';
import { findListeningSocket } from '../kernel/host/unix-sockets.ts';
import { type Clock } from '../control/clock.ts';
import {
  type Answers,
  findHolder,
  type HolderInfo,
  type Release,
  type Role,
  toSocketPath,
  tryToClaim,
} from './presence.ts';

/** Who asks for which role, and what is answered once it has it. */
export interface Claim {
  readonly role: Role;
  readonly info: HolderInfo;
  readonly answers: Answers;
}

/** What waiting needs of the world, and its listener. */
export interface Waiting {
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Called once for each holder that is waited for: null for one that does not answer as such. */
  readonly onHolder: (holder: HolderInfo | null) => void;
}

/** A holder that closes each connection at once is asked no more often. */
const restMs = 100;

/** One that ends while it is asked answers nothing either: it counts as silent when it has been so often. */
const silentRounds = 5;

/** Claims a role in this network namespace as soon as nobody holds it. Answers what gives it back; null where the signal came first. */
export async function awaitRole(
  { role, info, answers }: Claim,
  { clock, signal, onHolder }: Waiting,
): Promise<Release | null> {
  const holders = new Holders(role, onHolder);
  const isOver = () => signal.aborted;
  while (!isOver()) {
    const triedAt = clock.now();
    const release = await tryToClaim(role, info, answers);
    if (release !== null && !isOver()) return release;
    await release?.();
    const connection = holdConnection(role, signal);
    await holders.look(connection.isOpen);
    await connection.ended;
    await rest(clock, triedAt + restMs - clock.now());
  }
  return null;
}

/** Names whoever holds the place, once each. */
class Holders {
  readonly #role: Role;
  readonly #onHolder: Waiting['onHolder'];
  #inode: number | null = null;
  #isNamed = false;
  #silentRounds = 0;

  constructor(role: Role, onHolder: Waiting['onHolder']) {
    this.#role = role;
    this.#onHolder = onHolder;
  }

  /** To be called in each round, with whether its holder is still there. Never rejects. */
  async look(isThere: () => boolean): Promise<void> {
    const socket = await findListeningSocket(this.#role.socketName).catch(() => null);
    const inode = socket?.inode ?? null;
    if (inode !== this.#inode) {
      this.#inode = inode;
      this.#isNamed = false;
      this.#silentRounds = 0;
    }
    if (this.#isNamed) return;
    const holder = await findHolder(this.#role);
    this.#isNamed = holder !== null;
    if (holder !== null) {
      this.#onHolder(holder);
      return;
    }
    const before = this.#silentRounds;
    this.#silentRounds = isThere() ? silentRounds : before + 1;
    if (before < silentRounds && this.#silentRounds === silentRounds) this.#onHolder(null);
  }
}

interface HeldConnection {
  readonly isOpen: () => boolean;
  readonly ended: Promise<void>;
}

/** A connection to the holder, which ends with it; at once where there is none. */
function holdConnection(role: Role, signal: AbortSignal): HeldConnection {
  const socket = connect(toSocketPath(role));
  const end = () => {
    socket.destroy();
  };
  const ended = new Promise<void>((resolve) => {
    socket.once('close', () => {
      signal.removeEventListener('abort', end);
      resolve();
    });
  });
  signal.addEventListener('abort', end);
  // All that a holder says here is that it has waited long enough.
  socket.on('data', end).on('error', () => undefined);
  return { isOpen: () => !socket.destroyed, ended };
}

function rest(clock: Clock, delayMs: number): Promise<void> {
  if (delayMs <= 0) return Promise.resolve();
  return new Promise((resolve) => clock.schedule(delayMs, resolve));
}

/**
 * One program of a kind per network namespace, known from the namespace itself: an abstract Unix socket belongs to the network
 * namespace it was bound in and goes away with its process, also on kill -9. No lock file to go stale, and a program
 * in another container of the same host network is seen as well. Who is there is asked over HTTP.
 *
 * Goal: the next program takes over the moment the last one has ended, however it ended, and any number may wait.
 * Tension: nothing reports when an abstract name gets free, and its owner may be an older version, hang, or be no such program.
 * Compromise: a connection on which nothing is said ends with its owner. Owners of every version end it after some
 * seconds too, so each end is a hint to try, no more. The kernel gives the name to one of all who try.
 */
import * as z from 'zod/mini';
import { toPrintableLine, readJson } from '../text.ts';
import { VipnatError } from '../errors.ts';
import { createBoundedServer, tryToListen, type KeptServer } from './server.ts';
import { askLoopback } from './client.ts';
import { sleep, systemClock } from '../clock.ts';
import type { Logger } from '../telemetry/log.ts';
import { findListeningSocket } from '../kernel/host.ts';
import { connect } from 'node:net';
import { addAbortSignal } from 'node:stream';

/** A kind of program of which a network namespace has one. */
export interface Role {
  /** How people call it. */
  readonly title: 'agent' | 'balancer';
  /** Its abstract name, without its NUL. */
  readonly socketName: string;
  /** What a second one fails with. */
  readonly code: 'AGENT_ALREADY_RUNNING' | 'BALANCER_ALREADY_RUNNING';
}

/** That of `vipnat run`. */
export const agentRole: Role = { title: 'agent', socketName: 'vipnat-agent', code: 'AGENT_ALREADY_RUNNING' };

/** That of `vipnat balancer`: two on one node would repair each other's tables. */
export const balancerRole: Role = {
  title: 'balancer',
  socketName: 'vipnat-balancer',
  code: 'BALANCER_ALREADY_RUNNING',
};

/** The owner is on this host and has its answer ready: longer means that it hangs, and more that it is no such program. */
const answerLimits = { limitMs: 1000, maxLength: 1_000_000 };

/** Anybody may hold the name: what is printed of an answer is a line. */
export const line = z.pipe(z.string(), z.transform(toPrintableLine));

const ownerInfo = z.object({ version: line, pid: z.int(), since: line });

/** Which program is there: its version, its process id in its own pid namespace, and its start (ISO 8601). */
export type OwnerInfo = z.infer<typeof ownerInfo>;

/** What else the program answers, by path: called for each question, and what it returns is sent as JSON. */
export type Answers = ReadonlyMap<string, () => object>;

/** Gives the network namespace back. */
export type Release = () => Promise<void>;

/** Where the program of a role listens in each network namespace. */
function toSocketPath({ socketName }: Role): string {
  return `\0${socketName}`;
}

/** A command that finds the process which has a role. */
function printFind({ socketName }: Role): string {
  return `ss -xlp 'src *${socketName}*'`;
}

/**
 * Acquires a role in this network namespace. Answers what gives it back.
 * @throws VipnatError the role's code, naming the program that is there.
 */
export async function acquireRole(role: Role, info: OwnerInfo, answers: Answers): Promise<Release> {
  const release = await tryToAcquire(role, info, answers);
  if (release === null) throw new VipnatError(role.code, await describeOwner(role));
  return release;
}

/** Acquires a role in this network namespace where nobody has it; null where somebody does. */
async function tryToAcquire(role: Role, info: OwnerInfo, answers: Answers): Promise<Release | null> {
  const server = createBoundedServer(({ url = '/' }, response) => {
    const answer = answers.get(url)?.() ?? info;
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  const problem = await tryToListen(server, { path: toSocketPath(role) });
  if (problem?.code === 'EADDRINUSE') return null;
  if (problem !== null) throw problem;
  // No descriptor left for whoever asks; Node would end the process.
  server.on('error', () => undefined);
  return async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
}

/** Who has a role in this network namespace; null when nobody has, or when what holds the name does not answer as such. */
export async function findLockOwner(role: Role): Promise<OwnerInfo | null> {
  return readOwnerInfo(await askLockOwner(role, '/'));
}

/** Reads its answer; null for anything else. Pure and total. */
export function readOwnerInfo(json: unknown): OwnerInfo | null {
  return ownerInfo.safeParse(json).data ?? null;
}

/** What the owner of a role answers to a path, parsed; undefined when there is none or it is no JSON. */
export async function askLockOwner(role: Role, path: string): Promise<unknown> {
  const socketPath = toSocketPath(role);
  const answer = await askLoopback(`http://localhost${path}`, { ...answerLimits, socketPath });
  return readJson(answer?.text ?? '');
}

async function describeOwner(role: Role): Promise<string> {
  const lockOwner = await findLockOwner(role);
  const { title } = role;
  return lockOwner === null
    ? `another process listens on vipnat's socket in this network namespace and does not answer. Find the process with: ${printFind(role)}`
    : `${title === 'agent' ? 'an' : 'a'} ${title} is already running in this network namespace: vipnat ${lockOwner.version}, pid ${lockOwner.pid}, since ${lockOwner.since}. Stop that ${title} first`;
}

interface PlaceOptions {
  readonly role: Role;
  readonly info: OwnerInfo;
  /** What is answered once it has the role. */
  readonly answers: Answers;
  readonly logger: Logger;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Begins to answer whoever asks why this program waits; null for nobody. Called once, when the wait begins. */
  readonly serve: (reason: () => string) => Pick<KeptServer, 'stop'> | null;
}

/**
 * Gets a role in this host's network, after the program that has it now, if any. Writes nothing meanwhile. Answers what
 * gives the role back; null where the signal came first.
 */
export async function takePlace(options: PlaceOptions): Promise<Release | null> {
  const { role, logger, serve } = options;
  const wait: { served: Pick<KeptServer, 'stop'> | null; since: number | null; reason: string } = {
    ...{ served: null, since: null, reason: '' },
  };
  const release = await awaitRole(options, (lockOwner) => {
    wait.reason = describeWait(role, lockOwner);
    logger.warn(wait.reason, { code: role.code });
    if (wait.since !== null) return;
    wait.since = systemClock.now();
    wait.served = serve(() => wait.reason);
  });
  await wait.served?.stop();
  if (release !== null && wait.since !== null) {
    const seconds = ((systemClock.now() - wait.since) / 1000).toFixed(1);
    logger.info(`vipnat takes over from the ${role.title} that ended, after ${seconds} s`);
  }
  return release;
}

/** Its process id is its own: it may run in another pid namespace. */
function describeWait(role: Role, lockOwner: OwnerInfo | null): string {
  const find = `${printFind(role)} on the host finds it`;
  return lockOwner === null
    ? `waiting for another process, which listens on vipnat's socket in this network namespace and does not answer (${find}). vipnat writes nothing until that process ends`
    : `waiting for another ${role.title} of this host to end: vipnat ${lockOwner.version}, since ${lockOwner.since}, pid ${lockOwner.pid} in its pid namespace (${find}). vipnat writes nothing until then`;
}

/** An owner that closes each connection immediately is asked no more often. */
const restMs = 100;

/** One that ends while it is asked answers nothing either: it counts as unresponsive after so many rounds. */
const unansweredRounds = 5;

/** Called once for each owner that is waited for: null for one that does not answer as such. */
type OnLockOwner = (lockOwner: OwnerInfo | null) => void;

/** Acquires a role in this network namespace as soon as nobody holds it. Answers what gives it back; null where the signal came first. */
async function awaitRole(options: PlaceOptions, onLockOwner: OnLockOwner): Promise<Release | null> {
  const { role, info, answers, signal } = options;
  const observe = watchOwners(role, onLockOwner);
  const isOver = () => signal.aborted;
  while (!isOver()) {
    const triedAt = systemClock.now();
    const release = await tryToAcquire(role, info, answers);
    if (release !== null && !isOver()) return release;
    await release?.();
    const connection = holdConnection(role, signal);
    await observe(connection.isOpen);
    await connection.ended;
    const leftMs = triedAt + restMs - systemClock.now();
    if (leftMs > 0) await sleep(systemClock, leftMs);
  }
  return null;
}

/** Names whoever holds the place, once each. What it answers is to be called in each round, with whether its owner is still there. Never rejects. */
function watchOwners(role: Role, onLockOwner: OnLockOwner): (isThere: () => boolean) => Promise<void> {
  const known: { inode: number | null; isNamed: boolean; rounds: number } = {
    ...{ inode: null, isNamed: false, rounds: 0 },
  };
  return async (isThere) => {
    const socket = await findListeningSocket(role.socketName).catch(() => null);
    const inode = socket?.inode ?? null;
    if (inode !== known.inode) Object.assign(known, { inode, isNamed: false, rounds: 0 });
    if (known.isNamed) return;
    const lockOwner = await findLockOwner(role);
    known.isNamed = lockOwner !== null;
    const before = known.rounds;
    if (lockOwner === null) known.rounds = isThere() ? unansweredRounds : before + 1;
    if (lockOwner !== null || (before < unansweredRounds && known.rounds === unansweredRounds))
      onLockOwner(lockOwner);
  };
}

/** A connection to the owner, which ends with it; immediately where there is none. */
function holdConnection(role: Role, signal: AbortSignal) {
  const socket = addAbortSignal(signal, connect(toSocketPath(role)));
  const ended = new Promise((resolve) => socket.once('close', resolve));
  // All that an owner says here is that it has waited long enough.
  socket.on('data', () => socket.destroy()).on('error', () => undefined);
  return { isOpen: () => !socket.destroyed, ended };
}

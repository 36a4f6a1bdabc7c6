/**
 * One program of a kind per network namespace, told from the namespace itself: an abstract Unix socket belongs to the network
 * namespace it was bound in and goes away with its process, also on kill -9. No lock file to go stale, and a program
 * in another container of the same host network is seen as well. Who is there is asked over HTTP.
 */
import { request, type Server } from 'node:http';
import * as z from 'zod/mini';
import { VipnatError } from '../text/errors.ts';
import { createBoundedServer } from './bounded-server.ts';
import { scheduleRunningLimit, systemClock } from '../control/clock.ts';
import { toPrintableLine } from '../text/printable.ts';

/** A kind of program of which a network namespace has one. */
export interface Role {
  /** How people call it. */
  readonly title: 'agent' | 'balancer';
  /** Its abstract name, without its NUL. */
  readonly socketName: string;
  /** What a second one fails with. */
  readonly code: 'AGENT_ALREADY_RUNNING' | 'BALANCER_ALREADY_RUNNING';
}

/** The holder is on this host and has its answer ready: longer means that it hangs, and more that it is no such program. */
const askTimeoutMs = 1000;
const maxAnswerLength = 1_000_000;

/** Anybody may hold the name: what is printed of an answer is a line. */
export const line = z.pipe(z.string(), z.transform(toPrintableLine));

const holderInfo = z.object({ version: line, pid: z.int(), since: line });

/** Which program is there: its version, its process id in its own pid namespace, and its start (ISO 8601). */
export type HolderInfo = z.infer<typeof holderInfo>;

/** What else the program answers, by path: called for each question, and what it returns is sent as JSON. */
export type Answers = ReadonlyMap<string, () => object>;

/** Gives the network namespace back. */
export type Release = () => Promise<void>;

/** Where the program of a role listens in each network namespace. */
export function toSocketPath({ socketName }: Role): string {
  return `\0${socketName}`;
}

/** A command that finds the process which has a role. */
export function printFind({ socketName }: Role): string {
  return `ss -xlp 'src *${socketName}*'`;
}

/**
 * Claims a role in this network namespace. Answers what gives it back.
 * @throws VipnatError the role's code, naming the program that is there.
 */
export async function claimRole(role: Role, info: HolderInfo, answers: Answers): Promise<Release> {
  const release = await tryToClaim(role, info, answers);
  if (release === null) throw new VipnatError(role.code, await describeHolder(role));
  return release;
}

/** Claims a role in this network namespace where nobody has it; null where somebody does. */
export async function tryToClaim(role: Role, info: HolderInfo, answers: Answers): Promise<Release | null> {
  const server = createBoundedServer(({ url = '/' }, response) => {
    const answer = answers.get(url)?.() ?? info;
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  if (!(await tryToListen(server, role))) return null;
  // No descriptor left for whoever asks; Node would end the process.
  server.on('error', () => undefined);
  return async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
}

/** Who has a role in this network namespace; null when nobody has, or when what holds the name does not answer as such. */
export async function findHolder(role: Role): Promise<HolderInfo | null> {
  return readHolderInfo(await askHolder(role, '/'));
}

/** Reads its answer; null for anything else. Pure and total. */
export function readHolderInfo(json: unknown): HolderInfo | null {
  const parsed = holderInfo.safeParse(json);
  return parsed.success ? parsed.data : null;
}

/** What the holder of a role answers to a path, parsed; null when there is none or it is no JSON. */
export async function askHolder(role: Role, path: string): Promise<unknown> {
  return parseJson((await ask(role, path).catch(() => null)) ?? '');
}

function tryToListen(server: Server, role: Role): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen({ path: toSocketPath(role) }, () => {
      resolve(true);
    });
  });
}

async function describeHolder(role: Role): Promise<string> {
  const holder = await findHolder(role);
  const { title } = role;
  return holder === null
    ? `another process listens on vipnat's socket in this network namespace and does not answer. Find the process with: ${printFind(role)}`
    : `${title === 'agent' ? 'an' : 'a'} ${title} is already running in this network namespace: vipnat ${holder.version}, pid ${holder.pid}, since ${holder.since}. Stop that ${title} first`;
}

function ask(role: Role, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // No pooled connection: it could be to an agent that is gone.
    const question = request({ socketPath: toSocketPath(role), path, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
        if (body.length > maxAnswerLength) question.destroy();
      });
      response.on('end', () => {
        resolve(body);
      });
      // An answer that breaks off has no end.
      response.on('error', reject).on('close', () => {
        reject(new Error('no whole answer'));
      });
    });
    const cancelLimit = scheduleRunningLimit(systemClock, askTimeoutMs, () => question.destroy());
    question.on('error', reject).on('close', cancelLimit).end();
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

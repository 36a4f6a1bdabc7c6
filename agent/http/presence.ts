/**
 * One agent per network namespace, told from the namespace itself: an abstract Unix socket belongs to the network
 * namespace it was bound in and goes away with its process, also on kill -9. No lock file to go stale, and an
 * agent in another container of the same host network is seen as well. Who is there is asked over HTTP.
 */
import { request, type Server } from 'node:http';
import * as z from 'zod/mini';
import { VipnatError } from '../../lib/text/errors.ts';
import { createBoundedServer } from '../../lib/http/bounded-server.ts';
import { scheduleRunningLimit, systemClock } from '../../lib/control/clock.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';

/** The agent's abstract name, without its NUL. */
export const socketName = 'vipnat-agent';

/** Where the agent of this network namespace listens. */
export const socketPath = `\0${socketName}`;

/** The holder is on this host and has its answer ready: longer means that it hangs, and more that it is no agent. */
const askTimeoutMs = 1000;
const maxAnswerLength = 1_000_000;

/** Anybody may hold the name: what is printed of an answer is a line. */
export const line = z.pipe(z.string(), z.transform(toPrintableLine));

const agentInfo = z.object({ version: line, pid: z.int(), since: line });

/** Which agent is there: its version, its process id in its own pid namespace, and its start (ISO 8601). */
export type AgentInfo = z.infer<typeof agentInfo>;

/** What else the agent answers, by path: called for each question, and what it returns is sent as JSON. */
export type Answers = ReadonlyMap<string, () => object>;

/** Gives the network namespace back. */
export type Release = () => Promise<void>;

/**
 * Claims this network namespace. Answers what gives it back.
 * @throws VipnatError AGENT_ALREADY_RUNNING, naming the agent that is there.
 */
export async function claimPresence(info: AgentInfo, answers: Answers = new Map()): Promise<Release> {
  const release = await tryToClaim(info, answers);
  if (release === null) throw new VipnatError('AGENT_ALREADY_RUNNING', await describeHolder());
  return release;
}

/** Claims this network namespace where nobody has it; null where somebody does. */
export async function tryToClaim(info: AgentInfo, answers: Answers): Promise<Release | null> {
  const server = createBoundedServer(({ url = '/' }, response) => {
    const answer = answers.get(url)?.() ?? info;
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  if (!(await tryToListen(server))) return null;
  // No descriptor left for whoever asks; Node would end the process.
  server.on('error', () => undefined);
  return async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
}

/** The agent of this network namespace; null when none runs, or when what holds the name does not answer as one. */
export async function findAgent(): Promise<AgentInfo | null> {
  return readAgentInfo(await askAgent('/'));
}

/** Reads its answer; null for anything else. Pure and total. */
export function readAgentInfo(json: unknown): AgentInfo | null {
  const parsed = agentInfo.safeParse(json);
  return parsed.success ? parsed.data : null;
}

/** What the agent of this network namespace answers to a path, parsed; null when none runs or it is no JSON. */
export async function askAgent(path: string): Promise<unknown> {
  return parseJson((await ask(path).catch(() => null)) ?? '');
}

function tryToListen(server: Server): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen({ path: socketPath }, () => {
      resolve(true);
    });
  });
}

async function describeHolder(): Promise<string> {
  const holder = await findAgent();
  return holder === null
    ? `another process listens on vipnat's socket in this network namespace and does not answer. Find the process with: ss -xlp 'src *vipnat-agent*'`
    : `an agent is already running in this network namespace: vipnat ${holder.version}, pid ${holder.pid}, since ${holder.since}. Stop that agent first`;
}

function ask(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // No pooled connection: it could be to an agent that is gone.
    const question = request({ socketPath, path, agent: false }, (response) => {
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

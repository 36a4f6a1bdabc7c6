/**
 * One agent per network namespace, told from the namespace itself: an abstract Unix socket belongs to the network
 * namespace it was bound in and goes away with its process, also on kill -9. No lock file to go stale, and an
 * agent in another container of the same host network is seen as well. Who is there is asked over HTTP.
 */
import { createServer, request, type Server } from 'node:http';
import * as z from 'zod/mini';
import { VipnatError } from '../../lib/errors.ts';

const socketPath = '\0vipnat-agent';

/** The holder is on this host and only prints three fields: longer means that it hangs. */
const askTimeoutMs = 1000;

const agentInfo = z.object({ version: z.string(), pid: z.number(), since: z.string() });

/** Which agent is there: its version, its process id in its own pid namespace, and its start (ISO 8601). */
export type AgentInfo = z.infer<typeof agentInfo>;

/** What else the agent answers, by path: called for each question, and what it returns is sent as JSON. */
export type Answers = ReadonlyMap<string, () => object>;

/**
 * Claims this network namespace. Answers what gives it back.
 * @throws VipnatError AGENT_ALREADY_RUNNING, naming the agent that is there.
 */
export async function claimPresence(
  info: AgentInfo,
  answers: Answers = new Map(),
): Promise<() => Promise<void>> {
  const server = createServer(({ url = '/' }, response) => {
    const answer = answers.get(url)?.() ?? info;
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  if (!(await tryToListen(server))) {
    throw new VipnatError('AGENT_ALREADY_RUNNING', await describeHolder());
  }
  // The presence must not keep a finished process alive.
  server.unref();
  return async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
}

/** The agent of this network namespace; null when none runs, or when what holds the name does not answer as one. */
export async function findAgent(): Promise<AgentInfo | null> {
  const parsed = agentInfo.safeParse(await askAgent('/'));
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
    ? `something holds vipnat's place in this network namespace and does not answer: find it with ss -xlp 'src *vipnat-agent*'`
    : `an agent is already running in this network namespace: vipnat ${holder.version}, pid ${holder.pid}, since ${holder.since}. Stop it first.`;
}

function ask(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // No pooled connection: it could be to an agent that is gone.
    const question = request({ socketPath, path, agent: false, timeout: askTimeoutMs }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      response.on('end', () => {
        resolve(body);
      });
    });
    question.on('timeout', () => question.destroy(new Error('no answer')));
    question.on('error', reject).end();
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

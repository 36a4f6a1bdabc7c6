/** Claims its network namespace in every way there is, and prints what came of it. For presence.test.ts. */
import { acquireRole, agentRole, findLockOwner } from '../../../lib/http/singleton.ts';
import { VipnatError } from '../../../lib/errors.ts';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { askAgentHealth, askAgentApi, toHealthAnswer } from '../../../agent/ask.ts';
import { type ServerResponse, createServer as createHttpServer } from 'node:http';

const info = { version: '1.2.3', pid: 4711, since: '2026-01-01T00:00:00.000Z' };
/** What the API has said to an agent with one family. */
const view = {
  endpoints: { ipv6: { value: [{ family: 'ipv6', address: 'fd00::11', port: 6443 }], seenIn: 'the API' } },
  clusterIps: { ipv6: 'fd00:96::1' },
  affinitySeconds: 60,
  refused: [],
  isCurrent: false,
} as const;
const proxyOnly = { ipv6: [{ family: 'ipv6', address: 'fd00::12', port: 6443 }] };
const other = { version: '1.2.4', pid: 4712, since: '2026-01-02T00:00:00.000Z' };

async function attempt(): Promise<string> {
  try {
    const release = await acquireRole(agentRole, other, new Map());
    await release();
    return 'claimed';
  } catch (error) {
    if (error instanceof VipnatError) return `${error.code}: ${error.message}`;
    throw error;
  }
}

async function tryBeside(server: Server): Promise<{ claim: string; found: unknown }> {
  await once(server.listen({ path: '\0vipnat-agent' }).unref(), 'listening');
  return { claim: await attempt(), found: await findLockOwner(agentRole) };
}

/** Something else under the same name: it answers with this, or not at all. */
async function whileHeldBy(answer: string | null): Promise<{ claim: string; found: unknown }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    if (answer !== null) socket.once('data', () => socket.end(answer));
  });
  const result = await tryBeside(server);
  await new Promise((resolve) => {
    server.close(resolve);
    // Those that were never answered are still open.
    if (answer === null) resolve(undefined);
  });
  return result;
}

const before = await findLockOwner(agentRole);
const release = await acquireRole(agentRole, info, new Map());
const during = { claim: await attempt(), found: await findLockOwner(agentRole) };
const mute = (await askAgentHealth()) ?? (await askAgentApi());
await release();
const health = new Map([
  ['10.0.0.11:6443', { state: 'dead', reason: 'refused', staleConnections: 'none' } as const],
]);
const answers = [
  ['/health', () => toHealthAnswer(health)],
  ['/api', () => ({ view, proxyOnly })],
] as const;
const releaseProbing = await acquireRole(agentRole, info, new Map(answers));
const probing = {
  found: await findLockOwner(agentRole),
  health: [...((await askAgentHealth()) ?? [])],
  api: await askAgentApi(),
};
await releaseProbing();
const gone = (await askAgentHealth()) ?? (await askAgentApi());
const after = { claim: await attempt(), found: await findLockOwner(agentRole) };
/** An HTTP server under that name that answers everything with this, as long as it is asked. */
async function whileAnsweredBy(
  answer: (response: ServerResponse) => void,
): Promise<{ claim: string; found: unknown }> {
  const server = createHttpServer((_, response) => {
    response.on('error', () => undefined);
    answer(response);
  });
  const result = await tryBeside(server);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  return result;
}

const truncated = await whileAnsweredBy((response) => {
  response.writeHead(200, { 'content-length': 1000 }).write('{', () => response.destroy());
});
const dripping = await whileAnsweredBy((response) => {
  const timer = setInterval(() => response.write(' '), 100);
  response.on('close', () => {
    clearInterval(timer);
  });
});
const endless = await whileAnsweredBy((response) => {
  const flood = () => {
    while (response.write(' '.repeat(65_536)));
  };
  response.on('drain', flood);
  flood();
});
const stranger = await whileHeldBy('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello');
const unresponsive = await whileHeldBy(null);
const pretenders = { stranger, unresponsive, truncated, dripping, endless };
const outcomes = { before, during, mute, probing, gone, after, ...pretenders };

export type Outcomes = typeof outcomes;

process.stdout.write(JSON.stringify(outcomes), () => {
  process.exit();
});

import { fileURLToPath } from 'node:url';
import { type Agent, startAgent, limitMs, waitForSync } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectAnswers, client, vipArguments } from './traffic.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { afterAll, expect, test } from '@jest/globals';
import { readFileSync, readdirSync } from 'node:fs';

const program = fileURLToPath(new URL('../../support/network/flood.ts', import.meta.url));

/** Those that the server answers at most a few connections of at a time, and those that are as fast as they can. */
const patient = ['slow heads', 'unsent bodies', 'crowd'];
const fast = ['huge heads', 'questions', 'pipeline'];

/** Without a limit a crowd of two thousand has as many. Each of two servers has 32, and a look a few. */
const maxMoreDescriptors = 100;

/** What thousands of questions leave for V8 to sweep, in KiB. Measured: up to 60 MB. */
const maxMoreMemory = 150_000;

let agent: Agent;
let before: ReturnType<typeof measure>;
let most = 0;
let watching: NodeJS.Timeout;

// Before the cluster ends its agent.
afterAll(() => {
  clearInterval(watching);
});

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  agent = await startAgent(cluster, 'm1', vipArguments);
  await waitUntil(isReady, () => agent.log);
  before = measure();
  watching = setInterval(() => (most = Math.max(most, measure().descriptors)), 20);
});

function measure() {
  const status = readFileSync(`/proc/${agent.pid}/status`, 'utf8');
  const descriptors = readdirSync(`/proc/${agent.pid}/fd`).length;
  return { descriptors, peak: Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) };
}

/** Floods and their target share the processors: they end when they have done what they do. */
const run = (command: readonly string[]) => cluster.run('m1', command, { limitMs });

async function isReady(): Promise<boolean> {
  const { stdout } = await run(['curl', '--silent', 'http://127.0.0.1:10268/readyz']);
  return stdout === 'ok';
}

/** Has m3 refuse what comes to its apiserver (-I), or no longer (-D). */
async function refuse(verb: '-I' | '-D'): Promise<void> {
  const rule = 'INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset';
  await cluster.shell('m3', `iptables-nft ${verb} ${rule}`);
}

/** Floods of all these kinds at a time, to their end. */
async function flood(target: string, kinds: readonly string[]): Promise<void> {
  const ends = kinds.map(async (kind) => {
    const { stdout, stderr } = await run([process.execPath, program, kind, target]);
    expect(stderr).toBe('');
    const { connected } = JSON.parse(stdout) as { connected: number };
    expect(connected).toBeGreaterThanOrEqual(16);
    process.stderr.write(`${target}, ${kind}: ${stdout}\n`);
  });
  await Promise.all(ends);
}

test.each([
  ['10268', patient, fast],
  // Where a status is asked for, as by any process of the host.
  ['@vipnat-agent', ['crowd'], ['pipeline']],
])(
  'who floods %s keeps neither a dead apiserver in use, nor one that came back out',
  async (target, slowly, quickly) => {
    let from = agent.log.length;
    const slow = flood(target, slowly);
    await refuse('-I');
    await agent.waitForLine(/10\.77\.0\.13:6443 is dead: connection refused/, from);
    await agent.waitForLine(/ -> direct to /, from);
    await expectAnswers(cluster, client, ['m1', 'm2']);
    await slow;

    from = agent.log.length;
    const quick = flood(target, quickly);
    await refuse('-D');
    await agent.waitForLine(/10\.77\.0\.13:6443 is ready again after /, from);
    await quick;
    await waitForSync(cluster, 'm1', vipArguments);
    await expectAnswers(cluster, client, ['m1', 'm2', 'm3'], 60);
    expect(agent.listLines(/ error /)).toEqual([]);
  },
);

test('all of it takes a bounded number of descriptors, all given back, and bounded memory, and all is answered', async () => {
  expect(await isReady()).toBe(true);
  await waitUntil(
    () => measure().descriptors <= before.descriptors + 3,
    () => `still ${measure().descriptors} descriptors, ${before.descriptors} before`,
  );
  process.stderr.write(`${JSON.stringify({ before, most, after: measure() })}\n`);
  expect(most - before.descriptors).toBeLessThan(maxMoreDescriptors);
  expect(measure().peak - before.peak).toBeLessThan(maxMoreMemory);
});

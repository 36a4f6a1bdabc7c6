import { vips } from '../../support/network/layout.ts';
import { fileURLToPath } from 'node:url';
import { type Agent, startAgent } from '../../support/host/vipnat.ts';
import type { ChildProcess } from 'node:child_process';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectAnswers, expectBalanced } from './traffic.ts';
import { beforeAll, afterAll, test, expect } from '@jest/globals';
import { once } from 'node:events';
import { sleep } from '../../support/jest/waiting.ts';

const vipArguments = ['--vip', vips.ipv4];
const client = { seat: 'outside client', host: vips.ipv4 } as const;
const proxyProgram = fileURLToPath(new URL('../../support/network/late-proxy.ts', import.meta.url));
const proxyPort = 7443;

/** Whoever falls out of use says so. */
const ejection = /:6443 is (?:draining|dead)/;

let agent: Agent;
let proxy: ChildProcess;

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});

beforeAll(async () => {
  proxy = cluster.start('m3', [...[process.execPath, proxyProgram, String(proxyPort), '127.0.0.1', '6443']]);
  if (proxy.stdout !== null) await once(proxy.stdout, 'data');
  await cluster.shell(
    'm3',
    `iptables-nft -t nat -A PREROUTING -p tcp --dport 6443 -j REDIRECT --to-ports ${proxyPort}`,
  );
  agent = await startAgent(cluster, 'm1', vipArguments);
  await sleep(3000);
});

afterAll(async () => {
  await (agent as Agent | undefined)?.stop();
});

/** All that m3 answers comes so much later, handshakes too. */
const makeLate = (ms: number) => proxy.stdin?.write(`${ms}\n`);

/** Who fell out of use while something went on. */
async function listEjections(happen: () => Promise<void>): Promise<string[]> {
  const from = agent.log.length;
  await happen();
  return agent.log
    .slice(from)
    .split('\n')
    .filter((line) => ejection.test(line));
}

test('a frozen apiserver gets no new connection once its silence is seen, and is used again when it goes on', async () => {
  for (let round = 0; round < 3; round += 1) {
    const from = agent.log.length;
    cluster.apiserver('m2').freeze();
    await agent.waitForLine(/10\.77\.0\.12:6443 is draining: its host accepts connections, but/, from);
    await agent.waitForLine(/service-chain -> direct to 10\.77\.0\.11:6443, 10\.77\.0\.13:6443/, from);
    await expectAnswers(cluster, client, ['m1', 'm3']);
    cluster.apiserver('m2').thaw();
    await agent.waitForLine(/10\.77\.0\.12:6443 is ready again after /, from);
    await agent.waitForLine(/direct -> service-chain: /, from);
    await expectBalanced(cluster, client);
  }
});

test('when no apiserver is ready, as without etcd, and one is late and another one freezes, all stay', async () => {
  const ejections = await listEjections(async () => {
    for (const master of ['m1', 'm2', 'm3']) cluster.apiserver(master).answer('failing');
    await sleep(2000);
    cluster.apiserver('m2').freeze();
    await sleep(6000);
    cluster.apiserver('m2').thaw();
    for (const master of ['m1', 'm2', 'm3']) cluster.apiserver(master).answer('well');
    makeLate(0);
    await sleep(10_000);
  });
  expect(ejections).toEqual([]);
  await expectBalanced(cluster, client);
});

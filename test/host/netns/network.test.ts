import { apiserverPort, masters, vips } from '../../support/network/layout.ts';
import { describe, test, expect } from '@jest/globals';
import { useCluster } from '../../support/network/use-cluster.ts';
import { isFull } from '../../support/jest/extent.ts';
import { limitMs } from '../../support/host/vipnat.ts';
import { sleep, waitUntil } from '../../support/jest/waiting.ts';
import { Namespaces } from '../../support/network/namespaces.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { execa } from 'execa';
import { readdirSync } from 'node:fs';

const port = apiserverPort;

describe('the miniature cluster', () => {
  const cluster = useCluster('all tests');

  test.each([
    ['ipv4', '10.77.0.11'],
    ['ipv6', 'fd77::11'],
  ] as const)(
    'the VIP’s holder speaks to others with its own address, not with the VIP: %s',
    async (family, own) => {
      const target = masters[1]?.addresses[family] ?? '';
      const { from } = await cluster.seat("VIP holder's host").request(target, port, 2);
      expect(from).toEqual({ [own]: 2 });
    },
  );

  if (isFull)
    test('the failures of a measured outage are the connections within it, and all of them', async () => {
      const holder = cluster.namespaceOf('m1');
      // One that is open by then is answered: a reset would be another error.
      const rule = '-p tcp --dport 6443 --syn -j REJECT --reject-with tcp-reset';
      const measuring = cluster.seat('outside client').connectAtRate({
        ...{ host: vips.ipv4, port, perSecond: 50, durationMs: limitMs, limitMs: 60_000, isNamed: true },
      });
      await sleep(600);
      const begunAt = Date.now();
      await cluster.namespaces.shell(holder, `iptables-nft -I INPUT ${rule}`);
      const refused = await cluster.seat('pod on a worker').request(vips.ipv4, port, 20);
      await sleep(500);
      await cluster.namespaces.shell(holder, `iptables-nft -D INPUT ${rule}`);
      const endedAt = Date.now();
      cluster.seat('outside client').settle();
      const { startedAt, sent, failures, apiservers } = await measuring;
      expect(refused.errors).toEqual({ ECONNREFUSED: 20 });
      expect(new Set(failures.map(({ error }) => error))).toEqual(new Set(['ECONNREFUSED']));
      expect(apiservers).toEqual({ m1: sent - failures.length });
      const times = failures.map(({ atMs }) => startedAt + atMs);
      // A connection begins in the moment before its SYN is sent.
      expect(Math.min(...times)).toBeGreaterThan(begunAt - 1000);
      expect(Math.max(...times)).toBeLessThan(endedAt);
    });
});

describe('network namespaces of a run', () => {
  test('all go away with close, also when making one of them failed', async () => {
    const namespaces = new Namespaces();
    const name = await namespaces.create('one');
    await expect(namespaces.create('one')).rejects.toThrow(/File exists/);
    expect(listNamespaces()).toContain(name);
    await namespaces.close();
    expect(listNamespaces()).not.toContain(name);
  });

  test.each(['SIGTERM', 'SIGINT'] as const)('go away with their processes on %s', async (signal) => {
    const run = await startRun();
    run.process.kill(signal);
    await run.ended;
    expect(listNamespaces()).not.toContain(run.namespace);
    await expectToEnd(run.child);
  });

  test('of a run that was killed go away with their processes when the next run starts', async () => {
    const run = await startRun();
    expect(listNamespaces()).toContain(run.namespace);
    run.process.kill('SIGKILL');
    await run.ended;
    const next = new Namespaces();
    await next.close();
    // Other files' runs start, too, and one of them may have begun with it.
    await waitUntil(() => !listNamespaces().includes(run.namespace), `${run.namespace} is there`);
    await expectToEnd(run.child);
  });

  test('of a run that lives stay when another one starts', async () => {
    const run = await startRun();
    const next = new Namespaces();
    await next.close();
    expect(listNamespaces()).toContain(run.namespace);
    run.process.kill('SIGTERM');
    await run.ended;
  });
});

/** A program of its own with one namespace and one process in it. */
async function startRun() {
  const program = `
    import { Namespaces } from ${JSON.stringify(new URL('../../support/network/namespaces.ts', import.meta.url).href)};
    const namespaces = new Namespaces();
    const namespace = await namespaces.create('run');
    const { pid } = namespaces.start(namespace, ['sleep', '60']);
    process.stdout.write(JSON.stringify({ namespace, child: pid }));
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { namespace, child: pid } = JSON.parse(line.toString()) as { namespace: string; child: number };
  return { process: child, ended, namespace, child: pid };
}

async function expectToEnd(pid: number): Promise<void> {
  await waitUntil(async () => !(await isRunning(pid)), `process ${pid} still runs`);
}

async function isRunning(pid: number): Promise<boolean> {
  const { stdout } = await execa('ps', ['-o', 'stat=', '-p', String(pid)], { reject: false });
  return stdout !== '' && !stdout.startsWith('Z');
}

const listNamespaces = (): string[] => readdirSync('/run/netns');

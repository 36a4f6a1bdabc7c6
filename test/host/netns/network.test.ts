import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { families } from '../../../lib/address/address.ts';
import { type Cluster, seatNames } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { apiserverPort, masters, vips } from '../../support/network/layout.ts';
import { Namespaces } from '../../support/network/namespaces.ts';
import { limitMs, sleep } from '../../support/host/vipnat.ts';

const port = apiserverPort;

describe('the miniature cluster', () => {
  let cluster: Cluster;

  useCluster('all tests', (made) => {
    cluster = made;
  });

  test.each(seatNames)(
    'from the %s, every apiserver answers in both families',
    async (name) => {
      for (const { name: master, addresses } of masters) {
        for (const family of families) {
          const { apiservers, errors } = await cluster.seat(name).request(addresses[family], port, 4);
          expect({ family, apiservers, errors }).toEqual({ family, apiservers: { [master]: 4 }, errors: {} });
        }
      }
    },
    limitMs,
  );

  test.each(families)(
    'without rules the VIP is its holder’s apiserver, at once also after it moved: %s',
    async (family) => {
      for (const holder of ['m2', 'm3', 'm1']) {
        await cluster.moveVips(holder);
        for (const name of ['outside client', 'pod on a master', 'pod on a worker'] as const) {
          const { apiservers, errors } = await cluster.seat(name).request(vips[family], port, 2);
          expect({ name, apiservers, errors }).toEqual({ name, apiservers: { [holder]: 2 }, errors: {} });
        }
      }
    },
    limitMs,
  );

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
    limitMs,
  );

  test(
    'connections that are held are not disturbed by new ones, and all their bytes come back',
    async () => {
      const target = { host: vips.ipv4, port };
      const { held, report } = await cluster.seat('outside client').hold(target, 50, 1000);
      const { errors } = await cluster.seat('another master').request(target.host, port, 20);
      expect({ held, errors }).toEqual({ held: 50, errors: {} });
      const { opened, echoes, errors: resets } = await report;
      expect({ opened, resets }).toEqual({ opened: 50, resets: {} });
      // Ten writes a second on each.
      expect(echoes).toBeGreaterThan(50 * 5);
    },
    limitMs,
  );

  test(
    'a measured outage is as long as the outage was, and its failures are the requests within it',
    async () => {
      const holder = cluster.namespaceOf('m1');
      const rule = '-p tcp --dport 6443 -j REJECT --reject-with tcp-reset';
      const measuring = cluster.seat('outside client').requestAtRate({ host: vips.ipv4, port }, 50, 2000);
      await sleep(600);
      const begun = performance.now();
      await cluster.namespaces.shell(holder, `iptables-nft -I INPUT ${rule}`);
      const refused = performance.now();
      await sleep(500);
      const shortest = performance.now() - refused;
      await cluster.namespaces.shell(holder, `iptables-nft -D INPUT ${rule}`);
      const longest = performance.now() - begun;
      const { answers } = await measuring;
      const failed = answers.filter(({ error }) => error !== undefined).map(({ atMs }) => atMs);
      const lastedMs = Math.max(...failed) - Math.min(...failed);
      expect(answers).toHaveLength(100);
      // The first and the last request within it can be a few apart from its ends, which are a command's beginning and end.
      expect(lastedMs).toBeGreaterThan(shortest - 150);
      expect(lastedMs).toBeLessThan(longest + 150);
    },
    limitMs,
  );
});

describe('network namespaces of a run', () => {
  test(
    'all go away with close, also when making one of them failed',
    async () => {
      const namespaces = new Namespaces();
      const name = await namespaces.create('one');
      await expect(namespaces.create('one')).rejects.toThrow(/File exists/);
      expect(listNamespaces()).toContain(name);
      await namespaces.close();
      expect(listNamespaces()).not.toContain(name);
    },
    limitMs,
  );

  test.each(['SIGTERM', 'SIGINT'] as const)(
    'go away with their processes when the run gets %s',
    async (signal) => {
      const run = await startRun();
      run.process.kill(signal);
      await run.ended;
      expect(listNamespaces()).not.toContain(run.namespace);
      await expectToEnd(run.child);
    },
    limitMs,
  );

  test(
    'of a run that was killed go away with their processes when the next run starts',
    async () => {
      const run = await startRun();
      run.process.kill('SIGKILL');
      await run.ended;
      expect(listNamespaces()).toContain(run.namespace);
      const next = new Namespaces();
      await next.close();
      expect(listNamespaces()).not.toContain(run.namespace);
      await expectToEnd(run.child);
    },
    limitMs,
  );

  test(
    'of a run that lives stay when another one starts',
    async () => {
      const run = await startRun();
      const next = new Namespaces();
      await next.close();
      expect(listNamespaces()).toContain(run.namespace);
      run.process.kill('SIGTERM');
      await run.ended;
    },
    limitMs,
  );
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
  for (let look = 0; look < 100 && (await isRunning(pid)); look += 1) await sleep(20);
  expect({ pid, isRunning: await isRunning(pid) }).toEqual({ pid, isRunning: false });
}

async function isRunning(pid: number): Promise<boolean> {
  const { stdout } = await execa('ps', ['-o', 'stat=', '-p', String(pid)], { reject: false });
  return stdout !== '' && !stdout.startsWith('Z');
}

function listNamespaces(): string[] {
  return readdirSync('/run/netns');
}

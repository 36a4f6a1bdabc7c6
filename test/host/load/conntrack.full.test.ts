import { expect, jest, test } from '@jest/globals';
import { waitForSync, type Agent, sleep, startAgent, vipnat } from '../../support/host/vipnat.ts';
import { expectBalanced, startProxies } from '../netns/traffic.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { type Seat } from '../../support/network/seat.ts';
import type { HoldReport } from '../../support/network/seat-tasks.ts';

const limitMs = 240_000;

jest.setTimeout(limitMs);

const vip = ['--vip', vips.ipv4];
const target = { host: vips.ipv4, port: 6443 };

/** Enough that each apiserver has many of them. */
const open = 300;

/** Longer than it takes until connections are reset that hang: four probes. */
const fullMs = 10_000;

let agent: Agent;

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  agent = await startAgent(cluster, 'm1', [...vip, '--probe-timeout', '1500ms']);
});

const shell = (script: string) => cluster.shell('m1', script);

/** How many entries were added so far: each has a number of its own, as one that is there is not added again. */
let added = 0;

/** Foreign entries, which nothing pushes out, until so much of the holder's table is full, also when others end meanwhile. */
async function fill(share: number): Promise<void> {
  for (let round = 0; round < 20; round += 1) {
    const missing = await countMissing(share);
    if (missing <= 0) return;
    await shell(`
      awk 'BEGIN {
        for (i = ${added}; i < ${added + missing}; i++) {
          there = "198.18." int(i / 60000) ".1"
          port = i % 60000 + 1024
          print "-A -t 600 -u SEEN_REPLY,ASSURED -p udp -s " there " -d 198.18.255.1 -r 198.18.255.1 -q " there \\
            " --sport " port " --dport 9 --reply-port-src 9 --reply-port-dst " port
        }
      }' | conntrack -R - >/dev/null 2>&1 || true`);
    added += missing;
  }
  throw new Error('the connection table does not fill');
}

async function countMissing(share: number): Promise<number> {
  return Math.floor((await readLimit('max')) * share) - (await readLimit('count'));
}

const readShare = async (): Promise<number> => (await readLimit('count')) / (await readLimit('max'));

async function readLimit(name: 'count' | 'max'): Promise<number> {
  return Number(await shell(`cat /proc/sys/net/netfilter/nf_conntrack_${name}`));
}

async function hold(seat: Seat): Promise<() => Promise<HoldReport>> {
  const { report } = await seat.hold({ ...target, intervalMs: 500 }, open, limitMs);
  return () => {
    seat.settle();
    return report;
  };
}

test('at 96 % of the holder’s connection table all is well, and doctor names it', async () => {
  await fill(0.96);
  expect(await readShare()).toBeGreaterThan(0.95);
  const doctor = await vipnat(cluster, 'm1', ['doctor', ...vip]);
  expect(doctor.stdout).toMatch(/FAIL +the connection table is 96 % full/);
  expect(doctor.stdout).toMatch(/^ +sysctl -w net\.netfilter\.nf_conntrack_max=\d+$/m);
  await expectBalanced(cluster, { seat: 'pod on a worker', host: vips.ipv4 });
  expect(await vipnat(cluster, 'm1', ['check', ...vip])).toMatchObject({ exitCode: 0 });
});

test('when it is full, what is open lives and nothing is written; when it is not any more, all is as before (I12)', async () => {
  const end = await hold(cluster.seat('outside client'));
  const from = agent.log.length;
  await fill(1);
  const [{ errors, apiservers }] = await Promise.all([
    cluster.seat('pod on a worker').request(target.host, target.port, 24, 2000),
    sleep(fullMs),
  ]);
  expect(await readShare()).toBeGreaterThan(0.999);
  // It was full indeed.
  expect(Object.keys(errors)).toEqual(['timeout']);
  const lost = Object.values(errors).reduce((total, count) => total + count, 0);
  await shell('conntrack -D -p udp --orig-dst 198.18.255.1 >/dev/null 2>&1');
  await waitForSync(cluster, 'm1', vip);
  await expectBalanced(cluster, { seat: 'pod on a worker', host: vips.ipv4 });
  const report = await end();
  process.stderr.write(
    `load, connection table full for ${fullMs / 1000} s: of 24 new connections ${lost} failed, ${Object.keys(apiservers).length} apiservers answered the others; of ${report.opened} open ones ${Object.keys(report.errors).length} broke, ${report.echoes} of ${report.sent} bytes came back\n`,
  );
  expect(report).toMatchObject({ opened: open, errors: {}, echoes: report.sent });
  const said = agent.log.slice(from);
  expect(said).toMatch(/ no answer to TCP connects within 1500 ms. No apiserver on another host answers/);
  expect(said).not.toMatch(/ is dead|direct|vipnat reset |cannot serve the VIP/);
  expect(await agent.stop()).toBe(0);
});

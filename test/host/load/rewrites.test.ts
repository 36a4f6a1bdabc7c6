import { describe, expect, test } from '@jest/globals';
import { type Dialect } from '../../../lib/kernel/port.ts';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import { listApiservers, masters, vips } from '../../support/network/layout.ts';
import { isLong, onlyFull } from '../../support/jest/extent.ts';
import { rewriteOften, writesOneChain } from '../../support/network/rewrites.ts';
import { sleep, startAgent, vipnat, waitForSync } from '../../support/host/vipnat.ts';
import { press } from './pressure.ts';
import { pickCounter } from '../../support/network/netstat.ts';

const size = isLong ? { open: 20_000, perSecond: 2000 } : { open: 2000, perSecond: 500 };
const rewrites = isLong ? 400 : 40;
const limitMs = isLong ? 600_000 : 180_000;

/** From one rewrite to the next, and from one sync of kube-proxy's to the next, beside what it takes itself. */
const rewriteRestSeconds = 0.1;
const syncRestMs = 1000;

/** A stand-in that gets no processor for a moment is not dead. */
const patientProbes = ['--probe-timeout', '1500ms'];

const target = { host: vips.ipv4, port: 6443 };
const vip = ['--vip', vips.ipv4];

/** The apiservers but the VIP holder's own: an answer from there got past our rules. */
const others = listApiservers('ipv4').filter(({ address }) => address !== masters[0]?.addresses.ipv4);

/** What kube-proxy lists in turn: when m3 is listed no more, its open connections are to live on. */
const listings = [others.slice(0, 1), others] as const;

const backends: readonly Dialect[] = ['nft', ...onlyFull<Dialect>('legacy', 'nftables')];

describe.each(backends)('under load, in %s', (dialect) => {
  const flags = ['--iptables', dialect === 'nftables' ? 'none' : dialect, ...vip];
  let kubeProxy: KubeProxyStandIn;

  const cluster = useCluster('each test', async () => {
    const proxied = dialect === 'nftables' ? 'nft' : dialect;
    kubeProxy = new KubeProxyStandIn(cluster.namespaces, cluster.namespaceOf('m1'), proxied);
    await sync(1);
  });

  const sync = (listing: 0 | 1) =>
    dialect === 'nftables' ? kubeProxy.syncNftables(listings[listing]) : kubeProxy.sync(listings[listing]);
  const run = (args: readonly string[]) => vipnat(cluster, 'm1', ['run', '--once', ...args, ...flags]);
  const plan = async (args: readonly string[]) =>
    (await vipnat(cluster, 'm1', ['plan', '--format', 'restore', ...args, ...flags])).stdout;

  /** Two ways to write the VIP's chain, as vipnat writes them: another way, or other apiservers. */
  async function recordScripts(): Promise<string[]> {
    const modes = dialect === 'nftables' ? [] : ['direct', 'service-chain'];
    const ways = modes.map((mode) => ['--mode', mode]);
    const scripts: string[] = [];
    await run(ways[1] ?? []);
    for (const index of [0, 1] as const) {
      if (dialect === 'nftables') await sync(index);
      scripts.push(await plan(ways[index] ?? []));
      await run(ways[index] ?? []);
    }
    return scripts;
  }

  /** kube-proxy restores its whole rules over and over until told to end; answers how often it did. */
  async function syncOften(isOver: () => boolean): Promise<number> {
    let syncs = 0;
    for (; !isOver(); syncs += 1) {
      await sync(syncs % 2 === 0 ? 0 : 1);
      await sleep(syncRestMs);
    }
    await sync(1);
    return syncs + 1;
  }

  test(`${rewrites} rewrites and kube-proxy's syncs break none of ${size.open} open connections and fail none of ${size.perSecond} new ones a second (I12)`, async () => {
    const scripts = await recordScripts();
    for (const script of scripts) expect(script).toMatch(writesOneChain);
    const agent = await startAgent(cluster, 'm1', [...flags, ...patientProbes]);
    let [rewritten, syncs] = [0, 0];
    const report = await press(cluster, target, size, async () => {
      let isOver = false;
      const syncing = syncOften(() => isOver);
      const rewriting = { dialect, scripts, count: rewrites, restSeconds: rewriteRestSeconds, limitMs };
      rewritten = await rewriteOften(cluster, rewriting).finally(() => (isOver = true));
      syncs = await syncing;
    });
    const { held, failures, apiservers, sent, seconds } = report;
    const counted = await countLosses(cluster);
    const writes = await countWrites(cluster);
    process.stderr.write(
      `${[
        `load, ${dialect}: ${held.opened} open, of ${held.sent} bytes ${held.echoes} came back`,
        `${sent} new in ${seconds.toFixed(0)} s (${(sent / seconds).toFixed(0)} a second), ${failures.length} failed, ${counted.resentSyns} sent again`,
        `${rewritten} rewrites, ${writes} writes by the agent, ${syncs} syncs by kube-proxy`,
      ].join('; ')}\n`,
    );
    // With its whole log, should it have broken somebody's connections itself.
    expect(agent.log).not.toMatch(/ vipnat reset /);
    expect({ opened: held.opened, errors: held.errors }).toEqual({ opened: size.open, errors: {} });
    expect(held.echoes).toBe(held.sent);
    expect(held.sent).toBeGreaterThanOrEqual(2 * size.open);
    expect(failures).toEqual([]);
    expect(Object.keys(apiservers).sort()).toEqual(['m2', 'm3']);
    // What was sent again had found an apiserver's queue full, not a gap in the rules.
    expect(counted.resentSyns).toBeLessThanOrEqual(counted.refusedSyns);
    expect(counted.conntrackDrops).toBe(0);
    expect(rewritten).toBe(rewrites);
    expect(writes).toBeGreaterThan(0);
    await waitForSync(cluster, 'm1', flags);
    expect(await agent.stop()).toBe(0);
  });
});

/** By the running agent, as it says itself. */
async function countWrites(cluster: Cluster): Promise<number> {
  const page = await cluster.shell('m1', 'curl --silent http://127.0.0.1:10268/metrics');
  const counts = [...page.matchAll(/^vipnat_writes_total\S* (\d+)$/gm)].map(([, count]) => Number(count));
  return counts.reduce((total, count) => total + count, 0);
}

/** What the kernels of a cluster have lost since it is there. */
interface Losses {
  /** First packets of connections that the outside client sent again, as nobody answered in time. */
  readonly resentSyns: number;
  /** First packets that apiservers were too slow to take: their queues were full. */
  readonly refusedSyns: number;
  /** Packets that m1's connection table dropped: it was full, or an entry could not be made. */
  readonly conntrackDrops: number;
}

/** Counts them, as `nstat` and `conntrack --stats` do. */
async function countLosses(cluster: Cluster): Promise<Losses> {
  const read = async (machine: string, file: string) => await cluster.shell(machine, `cat /proc/net/${file}`);
  const refused = await Promise.all(
    masters.map(async ({ name }) => pickCounter(await read(name, 'netstat'), 'ListenDrops')),
  );
  const table = (await read('m1', 'stat/nf_conntrack')).split('\n');
  return {
    resentSyns: pickCounter(await read('client', 'netstat'), 'TCPSynRetrans'),
    refusedSyns: refused.reduce((total, count) => total + count, 0),
    conntrackDrops: sumColumn(table, 'drop') + sumColumn(table, 'insert_failed'),
  };
}

/** One line of hexadecimal numbers for each processor, below their names. */
function sumColumn([heading = '', ...rows]: readonly string[], name: string): number {
  const column = heading.trim().split(/\s+/).indexOf(name);
  return rows
    .filter((row) => row !== '')
    .reduce((total, row) => total + parseInt(row.trim().split(/\s+/)[column] ?? '', 16), 0);
}

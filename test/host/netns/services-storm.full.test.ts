/** Many Services that change all the time, beside the API's VIP on the same node. */
import { describe, expect, jest, test } from '@jest/globals';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { sleep, startAgent, vipnat, waitUntil } from '../../support/host/vipnat.ts';
import { vips } from '../../support/network/layout.ts';
import { type ApiChange, podPort, pods } from './service-world.ts';
import { expectNoneLost, startLoad, startProxies } from './traffic.ts';
import { useWebService } from './web-service.ts';

// Sixty thousand rules are listed for each look and each repair.
jest.setTimeout(300_000);

const serviceCount = 300;

/** The log names five of them. */
const allBalanced = /\d+ more Services are balanced/;

/** A kube-proxy with four thousand Services has as many. To list them takes longer than the balancer would rest between two writes. */
const foreignRules = 60_000;

/** Two hundred and fifty changes a second. */
const storm = { everyMs: 40, changes: 10 };

const flags = ['--vip', vips.ipv4];
const looksMetric = 'vipnat_sync_duration_seconds_count';

const nameOf = (number: number) => `storm-${number}`;

describe('a storm of Services', () => {
  const web = useWebService();

  const createServices = async () => {
    const numbers = Array.from({ length: serviceCount }, (_, number) => number);
    const changes = numbers.flatMap((number): ApiChange[] => [
      ['Service', makeLoadBalancer(nameOf(number), [{ port: 80 }])],
      ['EndpointSlice', makeEndpoints(nameOf(number), [{ port: podPort }], [pods[0]?.ipv4 ?? ''])],
      ['VirtualIP', makeVirtualIp(`10.78.${number >> 8}.${number & 255}`, [nameOf(number)])],
    ]);
    await web.put(...changes);
  };

  /** Goes on until told to stop; counts its changes. */
  const rage = async (signal: AbortSignal, counts: { changes: number }) => {
    for (let count = 0; !signal.aborted; counts.changes = count) {
      const changes = Array.from({ length: storm.changes }, (): ApiChange => {
        count += 1;
        const endpoints = [`10.244.${count & 127}.${1 + ((count >> 7) % 250)}`];
        return ['EndpointSlice', makeEndpoints(nameOf(count % serviceCount), [{ port: podPort }], endpoints)];
      });
      await web.put(...changes);
      await sleep(storm.everyMs);
    }
  };

  const writeForeignRules = async () => {
    const rules = Array.from(
      { length: foreignRules },
      (_, rule) =>
        `-A FOREIGN -s 172.16.${(rule >> 8) & 255}.${rule & 255}/32 -p tcp --dport ${rule} -j RETURN`,
    );
    const input = ['*nat', ':FOREIGN - [0:0]', ...rules, 'COMMIT'].join('\n');
    await web.shell('m1', `iptables-nft-restore --noflush <<'END'\n${input}\nEND`);
  };

  /** What vipnat run has written. Nothing lists all rules: a storm could hold that up. */
  const printOwnRules = async () => {
    const chains = await web.shell(
      'm1',
      `for chain in PREROUTING OUTPUT POSTROUTING VIPNAT; do iptables-nft -t nat -S $chain; done`,
    );
    return chains.split('\n').filter((line) => line.includes('VIPNAT') || line.includes('vipnat'));
  };

  const readMetric = async (name: string) => {
    const text = await web.shell('m1', 'curl --silent http://127.0.0.1:10268/metrics');
    return text
      .split('\n')
      .filter((line) => line.startsWith(name))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };

  test('changes nothing of vipnat run: its rules, its writes, its repairs, and connections to the VIP', async () => {
    await startProxies(web.cluster, ['m1'], 'nft', ['ipv4']);
    await writeForeignRules();
    const agent = await startAgent(web.cluster, 'm1', flags);
    await createServices();
    await web.startBalancer(allBalanced);
    const [rules, writes] = [await printOwnRules(), await readMetric('vipnat_writes_total')];
    const ending = new AbortController();
    const counts = { changes: 0 };
    const raging = rage(ending.signal, counts);
    const load = startLoad(web.cluster, { host: vips.ipv4, port: 6443 }, 200);
    const [before, looksBefore] = [counts.changes, await readMetric(looksMetric)];
    await sleep(5000);
    await web.stopBalancers('SIGKILL');
    await web.startBalancer(allBalanced);
    await web.shell('m1', 'nft delete table ip vipnat-lb');
    expect(await vipnat(web.cluster, 'm1', ['cleanup'])).toMatchObject({ exitCode: 1 });
    await sleep(3000);
    const [looks, changes] = [(await readMetric(looksMetric)) - looksBefore, counts.changes - before];
    expect(await printOwnRules()).toEqual(rules);
    expect(await readMetric('vipnat_writes_total')).toBe(writes);
    // A tool may be late beside so many rules: then nothing is written.
    expect(agent.listLines(/repaired/)).toEqual([]);
    // It looks, but not at each change: five times at most after each gap of the balancer's, as looks are short.
    process.stderr.write(`services-storm: ${looks} looks at ${changes} changes\n`);
    expect(looks).toBeGreaterThan(0);
    expect(looks).toBeLessThan(changes / 20);
    await web.shell('m1', 'iptables-nft -t nat -F VIPNAT');
    await waitUntil(
      async () => JSON.stringify(await printOwnRules()) === JSON.stringify(rules),
      'the agent did not repair its rules',
    );
    ending.abort();
    await raging;
    expect(counts.changes).toBeGreaterThan(500);
    await expectNoneLost(load, 1000);
  });
});

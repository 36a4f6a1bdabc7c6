/** Many Services that change all the time, beside the API's VIP on the same node. */
import { describe, expect, test } from '@jest/globals';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { sleep, startAgent, vipnat, waitUntil } from '../../support/host/vipnat.ts';
import { vips } from '../../support/network/layout.ts';
import { type ApiChange, podPort, pods } from './service-world.ts';
import { startProxies } from './traffic.ts';
import { balanced, useWebService } from './web-service.ts';

const limitMs = 120_000;

const serviceCount = 300;

/** A kube-proxy with four thousand Services has as many. To list them takes longer than the balancer would rest between two writes. */
const foreignRules = 60_000;

/** Two hundred and fifty changes a second. */
const storm = { everyMs: 40, changes: 10 };

const flags = ['--vip', vips.ipv4];

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
    await web.world.put(...changes);
  };

  /** Goes on until told to stop; answers how many changes there were. */
  const rage = async (signal: AbortSignal) => {
    let count = 0;
    while (!signal.aborted) {
      const changes = Array.from({ length: storm.changes }, (): ApiChange => {
        count += 1;
        const endpoints = [`10.244.${count & 127}.${1 + ((count >> 7) % 250)}`];
        return ['EndpointSlice', makeEndpoints(nameOf(count % serviceCount), [{ port: podPort }], endpoints)];
      });
      await web.world.put(...changes);
      await sleep(storm.everyMs);
    }
    return count;
  };

  const writeForeignRules = async () => {
    const rules = Array.from(
      { length: foreignRules },
      (_, rule) =>
        `-A FOREIGN -s 172.16.${(rule >> 8) & 255}.${rule & 255}/32 -p tcp --dport ${rule} -j RETURN`,
    );
    const input = ['*nat', ':FOREIGN - [0:0]', ...rules, 'COMMIT'].join('\n');
    await web.world.shell('m1', `iptables-nft-restore --noflush <<'END'\n${input}\nEND`);
  };

  /** What vipnat run has written. Nothing lists all rules: a storm could hold that up. */
  const printOwnRules = async () => {
    const chains = await web.world.shell(
      'm1',
      `for chain in PREROUTING OUTPUT POSTROUTING VIPNAT; do iptables-nft -t nat -S $chain; done`,
    );
    return chains.split('\n').filter((line) => line.includes('VIPNAT') || line.includes('vipnat'));
  };

  const readMetric = async (name: string) => {
    const text = await web.world.shell('m1', 'curl --silent --max-time 5 http://127.0.0.1:10268/metrics');
    return text
      .split('\n')
      .filter((line) => line.startsWith(name))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };

  test(
    'changes nothing of vipnat run: its rules, its writes, its repairs, and connections to the VIP',
    async () => {
      await startProxies(web.cluster, ['m1'], 'nft', ['ipv4']);
      await writeForeignRules();
      const agent = await startAgent(web.cluster, 'm1', flags);
      await createServices();
      await web.world.startBalancer(balanced);
      const [rules, writes] = [await printOwnRules(), await readMetric('vipnat_writes_total')];
      const ending = new AbortController();
      const raging = rage(ending.signal);
      const seat = web.cluster.seat('outside client');
      const load = seat.connectAtRate({
        ...{ host: vips.ipv4, port: 6443, perSecond: 200, durationMs: limitMs, isNamed: true },
      });
      const [syncs, begunMs] = [await readMetric('vipnat_look_duration_seconds_count'), performance.now()];
      await sleep(5000);
      await web.world.stopBalancers('SIGKILL');
      await web.world.startBalancer(balanced);
      await web.world.shell('m1', 'nft delete table ip vipnat-lb');
      expect(await vipnat(web.cluster, 'm1', ['cleanup'])).toMatchObject({ exitCode: 1 });
      await sleep(3000);
      const rate =
        ((await readMetric('vipnat_look_duration_seconds_count')) - syncs) /
        ((performance.now() - begunMs) / 1000);
      expect(await printOwnRules()).toEqual(rules);
      expect(await readMetric('vipnat_writes_total')).toBe(writes);
      expect(agent.listLines(/repaired|TOOL_TIMED_OUT/)).toEqual([]);
      // It looks, but not at each change: five times at most after each gap of the balancer's, as looks are short.
      expect(rate).toBeGreaterThan(0.05);
      expect(rate).toBeLessThan(6);
      await web.world.shell('m1', 'iptables-nft -t nat -F VIPNAT');
      await waitUntil(
        async () => JSON.stringify(await printOwnRules()) === JSON.stringify(rules),
        () => `the agent did not repair its rules:\n${agent.log}`,
      );
      ending.abort();
      seat.settle();
      const [{ sent, failures }, changes] = [await load, await raging];
      expect({ failures, isLoaded: sent > 1000, isStorm: changes > 500 }).toEqual({
        ...{ failures: [], isLoaded: true, isStorm: true },
      });
    },
    limitMs,
  );
});

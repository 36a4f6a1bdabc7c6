import { fc } from '../../support/random/fc.ts';
import { history, answer, strangers, createKernel, createPorts, run, type Event } from './hosts.ts';
import { config } from './configs.ts';
import { printForeign, listChains, printOurs, sources } from './tables.ts';
import { type HostPorts, observeAndAssess, everything, assess } from '../../../agent/read-host.ts';
import type { Config } from '../../../config/options.ts';
import { emptyState } from '../../../agent/decide/decision.ts';
import { applyPlan } from '../../../agent/sync.ts';
import { describe, test, expect } from '@jest/globals';
import { moreRulesInLegacy } from './counter-examples.ts';
import { vipChainName } from '../../../lib/dialect.ts';
import { plan } from '../../../agent/decide/plan.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { parseNftTable } from '../../../lib/nft/table.ts';
import { interpret } from '../../../agent/observe/observe.ts';
import { findCandidates } from '../../../agent/endpoints.ts';
import { unprobed } from '../../../agent/health/usable.ts';
import type { FakeKernel } from '../../support/fakes/kernel.ts';
import { forAll } from './for-all.ts';

/** A host with a history, on which an agent with this configuration ran until strangers came. */
const host = fc.record({
  before: history,
  answer,
  config,
  wasRunning: fc.boolean(),
  after: strangers,
});
type Host = typeof host extends fc.Arbitrary<infer Value> ? Value : never;

async function setUp({ before, answer: word, config: wanted, wasRunning, after }: Host) {
  const kernel = createKernel(before);
  const ports = createPorts(kernel, word);
  if (wasRunning) await write(ports, wanted);
  for (const happening of after) run(kernel, happening);
  return { kernel, ports, foreign: printForeign(kernel) };
}

/** What an agent without memory writes. Answers what it remembers then. */
async function write(ports: HostPorts, wanted: Config) {
  const { plan: found, memory, observation } = await observeAndAssess(ports, wanted, emptyState);
  await applyPlan(ports.kernel, found);
  return { memory, transactions: found.transactions, dialect: observation.dialect.value };
}

describe('from any state of the kernel, with any configuration', () => {
  test('one write brings all in sync, for the agent that wrote and for a new one (I7)', async () => {
    await forAll({ runs: 600, examples: [[moreRulesInLegacy]] }, [host], async (given) => {
      const { ports } = await setUp(given);
      const { memory } = await write(ports, given.config);
      expect((await observeAndAssess(ports, given.config, memory)).plan.tables).toEqual([]);
      expect((await observeAndAssess(ports, given.config, emptyState)).plan.tables).toEqual([]);
    });
  });

  test('what is not ours keeps its content and order, and one transaction for each backend and family does it (I5, I6)', async () => {
    await forAll({ runs: 600 }, [host], async (given) => {
      const { kernel, ports, foreign } = await setUp(given);
      const { transactions } = await write(ports, given.config);
      const targets = transactions.map(({ family, dialect }) => `${family} ${dialect}`);
      expect(new Set(targets).size).toBe(targets.length);
      expect(printForeign(kernel)).toEqual(foreign);
      expect(kernel.breaches).toEqual([]);
    });
  });

  test('our hook stands before every rule that could take a packet to a VIP, and sends each VIP to its chain', async () => {
    await forAll({ runs: 300 }, [host], async (given) => {
      const { kernel, ports } = await setUp(given);
      const { dialect } = await write(ports, given.config);
      if (dialect === 'nftables') return;
      for (const vip of given.config.vips) {
        const chains = listChains(kernel, { family: vip.family, dialect }).filter(
          ({ table }) => table === 'nat',
        );
        const rulesOf = (name: string) => chains.find(({ chain }) => chain === name)?.rules ?? [];
        for (const kernelChain of ['PREROUTING', 'OUTPUT']) {
          const rules = rulesOf(kernelChain);
          const hook = rules.findIndex((rule) => rule.endsWith('-j VIPNAT'));
          expect(hook).toBeGreaterThanOrEqual(0);
          expect(rules.slice(0, hook).filter(takesVips)).toEqual([]);
        }
        const match = new RegExp(
          `^-d ${vip.address}/\\d+ -p tcp .*--dport ${vip.port} --tcp-flags FIN,SYN,RST,ACK SYN -j ${vipChainName(vip)}$`,
        );
        expect(rulesOf('VIPNAT').filter((rule) => match.test(rule))).toHaveLength(1);
      }
    });
  });

  test('clean-up leaves nothing of ours, and everything else as it was (I4, I5)', async () => {
    await forAll({ runs: 600 }, [host], async (given) => {
      const { kernel, foreign } = await setUp(given);
      const { iptables, nftTables } = await kernel.read(everything);
      await applyPlan(
        kernel,
        plan({ dialect: 'nft', balances: [] }, [...iptables.map(parseSave), ...nftTables.map(parseNftTable)]),
      );
      expect(printOurs(kernel)).toEqual([]);
      expect(printForeign(kernel)).toEqual(foreign);
      expect(kernel.breaches).toEqual([]);
    });
  });

  test('the same reading gives the same bytes (I3)', async () => {
    await forAll({}, [host], async (given) => {
      const { kernel } = await setUp(given);
      const reading = await kernel.read(everything);
      const assessOnce = () => {
        const observation = interpret(reading, given.answer, given.config);
        const candidates = findCandidates(observation, emptyState, given.config);
        return toBytes(
          assess(
            { observation, localRoutes: null, candidates, health: unprobed, memory: emptyState },
            given.config,
          ),
        );
      };
      expect(assessOnce()).toBe(assessOnce());
    });
  });

  test("a VIP's chain is the same in whatever order VIPs and apiservers are given (I3)", async () => {
    await forAll({}, [history, config], async (events: readonly Event[], wanted) => {
      const reversed = {
        ...wanted,
        vips: wanted.vips.toReversed(),
        endpoints: wanted.endpoints.toReversed(),
      };
      const [one, other] = [createKernel(events), createKernel(events)];
      await write(createPorts(one, null), wanted);
      await write(createPorts(other, null), reversed);
      const chains = wanted.vips.map(vipChainName);
      expect(pickChains(other, chains)).toEqual(pickChains(one, chains));
    });
  });
});

/** Whether a foreign rule decides about any packet at all: those of strangers.ts that match everything, and kube-proxy's jump. */
function takesVips(rule: string): boolean {
  const isForAll = /^(?:-m comment --comment (?:"[^"]*"|\S+) )?-j /.test(rule);
  return isForAll && !/-j (?:LOG|MARK|cali-)/.test(rule);
}

const pickChains = (kernel: FakeKernel, names: readonly string[]): unknown[] =>
  sources.flatMap((source) =>
    listChains(kernel, source)
      .filter(({ chain }) => names.includes(chain))
      .map((printed) => ({ ...source, ...printed })),
  );

/** JSON with maps as lists, so that their order counts. */
const toBytes = (value: unknown): string =>
  JSON.stringify(value, (_key, part: unknown) => (part instanceof Map ? [...part] : part));

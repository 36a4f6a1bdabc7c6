import { FakeKernel } from '../../support/fakes/kernel.ts';
import { type Transaction, nameOwnTable, toolName } from '../../../lib/kernel/port.ts';
import { pairs } from '../../support/jest/pairs.ts';
import type { Config } from '../../../config/options.ts';
import { isForIptables } from '../../../lib/kernel/iptables.ts';
import { describe, test, expect } from '@jest/globals';
import { chooseRuns } from '../../support/random/runs.ts';
import { fc } from '../../support/random/fc.ts';
import { history, answer, createKernel, createPorts } from './hosts.ts';
import { config } from './configs.ts';
import { observeAndAssess } from '../../../agent/read-host.ts';
import { emptyState, type Assessment } from '../../../agent/decide/decision.ts';
import { printForeign, printTable } from './tables.ts';
import { converge, applyPlan } from '../../../agent/sync.ts';
import { VipnatError, errorCodes, type ErrorCode } from '../../../lib/errors.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { isToolRefusing } from '../../support/fakes/refusal.ts';
import { forAll } from './for-all.ts';

const tables = ['filter', 'nat', 'vipnat'] as const;

/** A stranger's write between our look and ours: takes away, or pins, what the `at`-th line of ours is about. */
function race(kernel: FakeKernel, transaction: Transaction, at: number): void {
  if (!isForIptables(transaction)) {
    raceNft(kernel, transaction);
    return;
  }
  const { family, dialect, input } = transaction;
  const victims = input.split('\n').flatMap((line, index, all) => {
    const table = all.slice(0, index).findLast((other) => other.startsWith('*')) ?? '';
    if (line.startsWith('-D ')) return [`${table}\n${line}\nCOMMIT\n`];
    const chain = /^-X (.*)$/.exec(line)?.[1];
    return chain === undefined ? [] : [`${table}\n-A OUTPUT -m mark --mark 0x7 -j ${chain}\nCOMMIT\n`];
  });
  const victim = victims[at % Math.max(1, victims.length)];
  if (victim !== undefined) kernel.run(family, dialect, victim);
}

/** Somebody removes our table, or makes one where we saw none. */
function raceNft(kernel: FakeKernel, { family, input }: Transaction): void {
  const table = nameOwnTable(family);
  if (kernel.showNft(family) !== '') kernel.runNft(`delete table ${table}`);
  else if (input !== '') kernel.runNft(`add table ${table}\nadd chain ${table} prerouting`);
}

test('a write that a stranger comes before leaves each table as it was or as wanted, never half of it (I6), and the next looks get there', async () => {
  let lost = 0;
  const runs = chooseRuns(300);
  await forAll(
    { runs: 300 },
    [history, answer, config, fc.nat({ max: 20 })],
    async (events, word, wanted, at) => {
      const kernel = createKernel(events);
      const ports = createPorts(kernel, word);
      const outcome = await writeDuringRace(kernel, await observeAndAssess(ports, wanted, emptyState), at);
      if (outcome !== null) {
        lost += 1;
        const now = printTables(kernel, outcome.transaction);
        for (const table of tables)
          expect([outcome.before, outcome.wanted].map((state) => state[table])).toContainEqual(now[table]);
      }

      const foreign = printForeign(kernel);
      await converge(kernel, async () => (await observeAndAssess(ports, wanted, emptyState)).plan);
      expect((await observeAndAssess(ports, wanted, emptyState)).plan.tables).toEqual([]);
      expect(printForeign(kernel)).toEqual(foreign);
      expect(kernel.breaches).toEqual([]);
    },
  );
  // Without races that are lost nothing was tested.
  expect(lost).toBeGreaterThan(runs / 15);
});

type Tables = Readonly<Record<(typeof tables)[number], readonly string[]>>;

interface Race {
  readonly transaction: Transaction;
  readonly before: Tables;
  readonly wanted: Tables;
}

/** Null when the write went through all the same; otherwise the tables right before the write, and as they were to be. */
async function writeDuringRace(kernel: FakeKernel, { plan }: Assessment, at: number): Promise<Race | null> {
  let outcome: Race | null = null;
  kernel.faults.beforeApply((transaction) => {
    race(kernel, transaction, at);
    const before = printTables(kernel, transaction);
    outcome = { transaction, before, wanted: predict(kernel, transaction) };
  });
  try {
    await applyPlan(kernel, plan);
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(VipnatError);
    expect(error).toMatchObject({ code: 'TOOL_FAILED' });
    return outcome;
  }
}

/** Each table's part of a script alone, on a copy of the kernel; a part that fails changes nothing. */
function predict(kernel: FakeKernel, transaction: Transaction): Tables {
  // nft makes all of a script or nothing of it.
  if (!isForIptables(transaction)) return printTables(kernel, transaction);
  const { family, dialect, input } = transaction;
  const copy = new FakeKernel();
  copy.run(family, dialect, kernel.show(family, dialect));
  for (const part of input.split(/(?<=^COMMIT\n)/m))
    isToolRefusing(() => {
      copy.run(family, dialect, part);
    });
  return printTables(copy, transaction);
}

function printTables(kernel: FakeKernel, source: Transaction): Tables {
  if (!isForIptables(source))
    return { filter: [], nat: [], vipnat: kernel.showNft(source.family).split('\n') };
  const [filter = [], nat = []] = tables.map((table) => printTable(kernel, source, table));
  return { filter, nat, vipnat: [] };
}

describe('a look that could not read everything (I1)', () => {
  const saveTools = pairs.map(([family, dialect]) => toolName(family, dialect, 'save'));
  const readTools = ['netlink', 'nft', ...saveTools];
  const partOfTable = '*nat\n:PREROUTING ACCEPT [0:0]\n';
  const incompatible = "# Table `nat' is incompatible, use 'nft' tool.\n";
  const garbageOfTools = fc.oneof(
    fc.constantFrom(partOfTable, incompatible),
    fc.string({ minLength: 1 }).map((text) => `Error: ${text.replaceAll('\n', ' ')}\n`),
  );
  const look = (kernel: FakeKernel, wanted: Config) =>
    observeAndAssess(createPorts(kernel, null), wanted, emptyState).catch((error: unknown) => error);

  test('is an error with a code, or a plan that leaves alone what a tool did not tell, whichever fails or hangs', async () => {
    await forAll(
      {},
      [history, config, fc.constantFrom(...readTools), fc.constantFrom(...errorCodes)],
      async (events, wanted, tool, code) => {
        const clock = new FakeClock();
        const kernel = createKernel(events, clock);
        kernel.faults.failNext({ tool, code });
        const looked = look(kernel, wanted);
        await clock.advance(20_000);
        expectToLeaveAlone(await looked, tool, code);
      },
    );
  });

  test('is the same when a tool prints part of a table, or something else', async () => {
    await forAll(
      {},
      [history, config, fc.constantFrom('iptables-nft-save', 'ip6tables-legacy-save'), garbageOfTools],
      async (events, wanted, tool, garbage) => {
        const kernel = createKernel(events);
        kernel.faults.printNext(tool, garbage);
        const code = garbage.includes('incompatible') ? 'TABLE_INCOMPATIBLE' : 'TOOL_OUTPUT_UNEXPECTED';
        expectToLeaveAlone(await look(kernel, wanted), tool, code);
      },
    );
  });
});

/** Nothing comes of the look but an error, or what the tool would have told is unread and stays as it is, and no VIP needs it. */
function expectToLeaveAlone(looked: unknown, tool: string, code: ErrorCode): void {
  if (looked instanceof Error) {
    expect(looked).toMatchObject({ code });
    return;
  }
  const { observation, plan } = looked as Assessment;
  const hidden = observation.unread.filter((one) => one.code === code);
  if (tool !== 'netlink') expect(hidden).not.toEqual([]);
  const touched = plan.tables.filter((part) =>
    hidden.some(
      ({ family, dialect, tables }) =>
        part.family === family && part.dialect === dialect && tables.some((table) => table === part.table),
    ),
  );
  expect(touched).toEqual([]);
}

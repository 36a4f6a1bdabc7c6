import { type Source, sources, listChains, printOurs, printForeign } from './tables.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { fc } from '../../support/random/fc.ts';
import { balances } from './configs.ts';
import { plan } from '../../../agent/decide/plan.ts';
import { renderTables } from '../../../lib/iptables/vip-rules.ts';
import { writtenTables } from '../../../lib/dialect.ts';
import { isOwnRule, isOwnChain, parseSave } from '../../../lib/iptables/rules.ts';
import { damages } from '../../support/foreign/damage.ts';
import { runEdit, leftoverScript } from './strangers.ts';
import { isOurChain, isOurRule } from '../../support/foreign/printed-rules.ts';
import { iptablesDialects } from '../../../lib/kernel/port.ts';
import { diffTable } from '../../../lib/iptables/diff.ts';
import { test, expect } from '@jest/globals';
import { forAll } from './for-all.ts';
import { readCaptures } from '../fuzz/engine/captures.ts';
import { VipnatError } from '../../../lib/errors.ts';

/** A kernel in which kube-proxy's chains exist, so that a rule may lead to them. */
function createKernel({ family, dialect }: Source): FakeKernel {
  const kernel = new FakeKernel();
  kernel.run(family, dialect, '*nat\n:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\n:KUBE-MARK-MASQ - [0:0]\nCOMMIT\n');
  return kernel;
}

test('an edit of any rule of a chain of ours is found', async () => {
  const kinds = fc.constantFrom(...damages);
  await forAll(
    {},
    [fc.constantFrom(...sources), balances, fc.nat({ max: 99 }), kinds],
    (source, wanted, at, kind) => {
      const { family, dialect } = source;
      const kernel = createKernel(source);
      const own = wanted.filter(({ vip }) => vip.family === family);
      const [transaction] = plan({ dialect, balances: own }, [read(kernel, source)]).transactions;
      kernel.run(family, dialect, transaction?.input ?? '');
      const before = printOurs(kernel);
      runEdit(kernel, { ...source, at, kind });
      const isChanged = printOurs(kernel).join('\n') !== before.join('\n');
      const again = plan({ dialect, balances: own }, [read(kernel, source)]);
      if (isChanged) expect(again.tables.length).toBeGreaterThan(0);
    },
  );
});

test('reading a rule finds the same rules to be ours as a look at the text does', async () => {
  await forAll({}, [fc.array(leftoverScript, { minLength: 1, maxLength: 3 })], (scripts) => {
    const kernel = new FakeKernel();
    for (const { family, dialect, script } of scripts) kernel.run(family, dialect, script);
    const chains = sources.flatMap((source) => listChains(kernel, source));
    for (const { chain, rules } of chains) {
      expect(isOwnChain(chain)).toBe(isOurChain(chain));
      expect(rules.map(isOwnRule)).toEqual(rules.map(isOurRule));
    }
  });
});

test('save output that is cut short is never read as a whole: its last table is missing or it is an error', async () => {
  const captures = readCaptures(/^ip6?tables-.*save/);
  await forAll({}, [fc.constantFrom(...captures), fc.nat()], (text, position) => {
    const parse = (part: string) => parseSave({ family: 'ipv4', dialect: 'nft', text: part });
    const whole = parse(text);
    try {
      const read = parse(text.slice(0, position % text.length));
      for (const [name, table] of read.tables) expect(table).toEqual(whole.tables.get(name));
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
    }
  });
});

test('wherever a rule leads to a chain of ours or carries our comment, wanting nothing removes it (I4, I5)', async () => {
  const place = fc.record({
    table: fc.constantFrom(...writtenTables),
    chain: fc.constantFrom('INPUT', 'OUTPUT', 'DOCKER-USER', 'VIPNATION'),
    rule: fc.constantFrom(
      '-j VIPNAT',
      '-s 10.0.0.0/8 -g VIPNAT-OLD',
      '-m comment --comment "vipnat:old" -j ACCEPT',
      '-m comment --comment "vipnat:old"',
      '-j ACCEPT',
    ),
  });
  await forAll(
    {},
    [fc.constantFrom(...iptablesDialects), fc.array(place, { minLength: 1, maxLength: 8 })],
    (dialect, places) => {
      const kernel = new FakeKernel();
      const source: Source = { family: 'ipv4', dialect };
      for (const { table, chain, rule } of places) {
        const own = ['VIPNAT', 'VIPNAT-OLD'].map((name) => `:${name} - [0:0]\n`).join('');
        const foreign = ['DOCKER-USER', 'VIPNATION'].filter((name) => !hasChain(kernel, source, table, name));
        const declarations = foreign.map((name) => `:${name} - [0:0]\n`).join('');
        kernel.run('ipv4', dialect, `*${table}\n${own}${declarations}-A ${chain} ${rule}\nCOMMIT\n`);
      }
      const foreign = printForeign(kernel);
      const { tables } = read(kernel, source);
      for (const table of writtenTables) {
        const diff = diffTable(renderTables([])[table], tables.get(table), {
          balances: [],
          isKnownRendering: () => false,
        });
        expect(diff.drift.length > 0).toBe(diff.changes.length > 0);
      }
      for (const { input } of plan({ dialect: 'nft', balances: [] }, [read(kernel, source)]).transactions)
        kernel.run('ipv4', dialect, input);
      expect(printOurs(kernel)).toEqual([]);
      expect(printForeign(kernel)).toEqual(foreign);
    },
  );
});

const hasChain = (kernel: FakeKernel, source: Source, table: string, name: string): boolean =>
  listChains(kernel, source).some((printed) => printed.table === table && printed.chain === name);

const read = (kernel: FakeKernel, { family, dialect }: Source): ReturnType<typeof parseSave> =>
  parseSave({ family, dialect, text: kernel.show(family, dialect) });

import { type Source, sources, printOurs } from './tables.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { fc } from '../../support/random/fc.ts';
import { balances } from './configs.ts';
import { plan } from '../../../agent/decide/plan.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { damages } from '../../support/foreign/damage.ts';
import { runEdit } from './strangers.ts';
import { test, expect } from '@jest/globals';
import { forAll } from './for-all.ts';
import { readCaptures } from '../fuzz/engine/captures.ts';
import { VipnatError } from '../../../lib/errors.ts';

test('an edit of any rule of a chain of ours is found', async () => {
  const kinds = fc.constantFrom(...damages);
  await forAll(
    {},
    [fc.constantFrom(...sources), balances, fc.nat({ max: 99 }), kinds],
    (source, wanted, at, kind) => {
      const { family, dialect } = source;
      const kernel = new FakeKernel();
      // Chains of kube-proxy, so that a rule may lead to them.
      kernel.run(
        family,
        dialect,
        '*nat\n:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\n:KUBE-MARK-MASQ - [0:0]\nCOMMIT\n',
      );
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

const read = (kernel: FakeKernel, { family, dialect }: Source): ReturnType<typeof parseSave> =>
  parseSave({ family, dialect, text: kernel.show(family, dialect) });

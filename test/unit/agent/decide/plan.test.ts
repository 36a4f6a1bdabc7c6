import { type Balance, describeDrift } from '../../../../lib/dialect.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { everything } from '../../../../agent/read-host.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { parseNftTable } from '../../../../lib/nft/table.ts';
import { applyPlan } from '../../../../agent/sync.ts';
import { plan, planRemoval } from '../../../../agent/decide/plan.ts';
import { describe, test, expect } from '@jest/globals';
import { type Family, families } from '../../../../lib/net.ts';
import { type IptablesDialect, iptablesDialects, type Dialect } from '../../../../lib/kernel/port.ts';
import { readFileSync } from 'node:fs';

const toBalance = (vip: string, backend: string, more: Partial<Balance> = {}): Balance => ({
  vip: toEndpoint(vip),
  route: { kind: 'translate', backends: [toEndpoint(backend)], affinitySeconds: 60 },
  masquerade: 'own',
  ...more,
});
const first = toBalance('10.0.0.50:6443', '10.0.0.11:6443');
const second = toBalance('10.0.0.60:6443', '10.0.0.12:6443');
const otherPort = toBalance('10.0.0.50:8443', '10.0.0.13:6443');
const sixth = toBalance('[fd00::50]:6443', '[fd00::11]:6443');
const all = [first, second, otherPort, sixth];

const ruleBackends = ['nft', 'legacy', 'nftables'] as const;

const readAll = async (kernel: FakeKernel) => {
  const { iptables, nftTables } = await kernel.read(everything);
  return [...iptables.map(parseSave), ...nftTables.map(parseNftTable)];
};
const bring = async (kernel: FakeKernel, dialect: Dialect, balances: readonly Balance[]) => {
  await applyPlan(kernel, plan({ dialect, balances }, await readAll(kernel)));
};
const remove = async (kernel: FakeKernel, ...balances: readonly Balance[]) => {
  const removal = planRemoval(
    await readAll(kernel),
    balances.map(({ vip }) => vip),
  );
  await applyPlan(kernel, removal);
  return removal;
};
const foreign = '*nat\n-A PREROUTING -d 192.0.2.1/32 -j ACCEPT\nCOMMIT\n';

describe.each(ruleBackends)('a virtual IP is taken out of rules in %s', (dialect) => {
  test.each([
    ['the first', first],
    ['one in the middle', second],
    ['one at the same address', otherPort],
    ['the only one of its family', sixth],
  ])('%s: the rules are as vipnat writes them for the others', async (_, gone) => {
    const kernel = new FakeKernel();
    kernel.run('ipv4', 'nft', foreign);
    await bring(kernel, dialect, all);
    await remove(kernel, gone);
    const others = all.filter((balance) => balance !== gone);
    expect(plan({ dialect, balances: others }, await readAll(kernel)).tables).toEqual([]);
    expect(kernel.show('ipv4', 'nft')).toContain('-A PREROUTING -d 192.0.2.1/32 -j ACCEPT');
    expect((await remove(kernel, gone)).transactions).toEqual([]);
  });

  test.each([
    ['one after the other, the last with the hooks', all.map((one) => [one])],
    ['at once', [all]],
  ])('all %s: nothing of ours is left', async (_, removals) => {
    const kernel = new FakeKernel();
    await bring(kernel, dialect, all);
    for (const gone of removals) await remove(kernel, ...gone);
    expect(plan({ dialect: 'nft', balances: [] }, await readAll(kernel)).tables).toEqual([]);
  });

  test('one that has no rules: nothing is changed', async () => {
    const kernel = new FakeKernel();
    await bring(kernel, dialect, all);
    expect((await remove(kernel, toBalance('10.0.0.99:6443', '10.0.0.11:6443'))).tables).toEqual([]);
  });

  test('who is not masqueraded among the others keeps being so', async () => {
    const kernel = new FakeKernel();
    const unmasked = toBalance('10.0.0.60:6443', '10.0.0.12:6443', { masquerade: 'none' });
    await bring(kernel, dialect, [first, unmasked]);
    await remove(kernel, first);
    expect(plan({ dialect, balances: [unmasked] }, await readAll(kernel)).tables).toEqual([]);
  });
});

test('what somebody put into a shared chain stays, and is not signed as ours', async () => {
  const kernel = new FakeKernel();
  await bring(kernel, 'nft', [first, second]);
  kernel.run('ipv4', 'nft', '*nat\n-A VIPNAT -p udp -j RETURN\nCOMMIT\n');
  await remove(kernel, first);
  const shown = kernel.show('ipv4', 'nft');
  expect(shown).toContain('-A VIPNAT -p udp -j RETURN');
  expect(shown).not.toContain('10.0.0.50');
  expect(shown).toContain('-A VIPNAT -d 10.0.0.60/32 ');
});

test('a hook that is missing is not put back: removing is no repair', async () => {
  const kernel = new FakeKernel();
  await bring(kernel, 'nft', [first, second]);
  const hook = /^-A (PREROUTING .*-j VIPNAT)$/m.exec(kernel.show('ipv4', 'nft'))?.[1] ?? '';
  kernel.run('ipv4', 'nft', `*nat\n-D ${hook}\nCOMMIT\n`);
  const { tables } = await remove(kernel, first);
  const changes = tables.flatMap((table) => table.changes.map(({ kind }) => kind));
  expect(changes).not.toContain('insert');
});

test.each([
  ['gone', (hook: string) => `-D ${hook}\n-F VIPNAT-FORWARD\n-X VIPNAT-FORWARD`],
  ['with a rule of somebody else', () => '-A VIPNAT-FORWARD -p udp -j RETURN'],
])('the rules about replies go with the last virtual IP: the forward chain is %s', async (_, change) => {
  const kernel = new FakeKernel();
  const balances = [first, second].map((one) => ({ ...one, apiservers: [toEndpoint('10.0.0.11:6443')] }));
  await bring(kernel, 'nft', balances);
  const hook = /^-A (FORWARD .*-j VIPNAT-FORWARD)$/m.exec(kernel.show('ipv4', 'nft'))?.[1] ?? '';
  kernel.run('ipv4', 'nft', `*filter\n${change(hook)}\nCOMMIT\n`);
  await remove(kernel, first);
  expect(kernel.show('ipv4', 'nft')).toContain('-j VIPNAT-INPUT');
  await remove(kernel, second);
  expect(kernel.show('ipv4', 'nft')).not.toContain('VIPNAT-INPUT');
});

const readSave = (family: Family, dialect: IptablesDialect, text = '') =>
  parseSave({ family, dialect, text });
const everywhere = families.flatMap((family) => iptablesDialects.map((dialect) => readSave(family, dialect)));

const both = [first, sixth];
const leftover = '*nat\n:VIPNAT - [0:0]\nCOMMIT\n';

describe('plan', () => {
  test('has one transaction for each family, both tables in it, filter first', () => {
    const { transactions } = plan({ dialect: 'legacy', balances: both }, everywhere);
    expect(transactions.map(({ family, dialect }) => `${family} ${dialect}`)).toEqual([
      'ipv4 legacy',
      'ipv6 legacy',
    ]);
    for (const { input } of transactions)
      expect(input.match(/^(\*\w+|COMMIT)$/gm)).toEqual(['*filter', 'COMMIT', '*nat', 'COMMIT']);
  });

  test('writes the wanted backend before it clears the other one, where a table without changes is left out', () => {
    const seen = [readSave('ipv4', 'nft', leftover), readSave('ipv4', 'legacy')];
    const { transactions } = plan({ dialect: 'legacy', balances: both }, seen);
    expect(transactions.map(({ dialect }) => dialect)).toEqual(['legacy', 'nft']);
    expect(transactions[1]?.input).toBe('*nat\n:VIPNAT - [0:0]\n-X VIPNAT\nCOMMIT\n');
  });

  test('touches nothing that was not read (I1)', () => {
    const { transactions } = plan({ dialect: 'nft', balances: both }, [readSave('ipv6', 'nft')]);
    expect(transactions.map(({ family }) => family)).toEqual(['ipv6']);
  });
});

test('drift is described with its table and tool', () => {
  const seen = [readSave('ipv6', 'legacy', leftover)];
  expect(describeDrift(plan({ dialect: 'nft', balances: [] }, seen))).toEqual([
    'VIPNAT is left over (nat, ip6tables-legacy)',
  ]);
});

/** By what printed them, where that is not the backend alone: nft 1.0 prints flags of TCP in another way than 0.9 and 1.1, and 0.9 times as `3h`. */
const prints: readonly (readonly [string, Dialect])[] = [
  ...iptablesDialects.map((dialect) => [dialect, dialect] as const),
  ['nftables', 'nftables'],
  ['nftables-0.9', 'nftables'],
  ['nftables-1.1', 'nftables'],
];
const cases = families.flatMap((family) => prints.map(([print, dialect]) => ({ family, print, dialect })));

/** What was written when these were captured. */
function balancesOf(family: Family): Balance[] {
  const [vip, other, ...apiservers] = [50, 51, 11, 12, 13].map((host) =>
    toEndpoint(`${family === 'ipv6' ? `[fd00:77::${host}]` : `10.77.0.${host}`}:6443`),
  );
  if (vip === undefined || other === undefined) throw new Error('no VIPs');
  return [
    { vip, masquerade: 'own', route: { kind: 'translate', backends: apiservers, affinitySeconds: 10_800 } },
    { vip: { ...other, port: 8443 }, masquerade: 'none', route: { kind: 'translate', backends: apiservers } },
  ];
}

function readPrinted({ family, print, dialect }: (typeof cases)[number]) {
  const url = new URL(`../../../support/fixtures/captures/own-rules.${print}.${family}.txt`, import.meta.url);
  const text = readFileSync(url, 'utf8');
  return dialect === 'nftables' ? parseNftTable({ family, text }) : parseSave({ family, dialect, text });
}

test.each(cases)('what any tool prints of ours is in sync: $print, $family', ({ family, print, dialect }) => {
  const seen = [readPrinted({ family, print, dialect })];
  expect(plan({ dialect, balances: balancesOf(family) }, seen).tables).toEqual([]);
  expect(plan({ dialect, balances: balancesOf(family).slice(1) }, seen).tables).not.toEqual([]);
});

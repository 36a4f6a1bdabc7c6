import type { Balance } from '../../../lib/dialect.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { everything } from '../../../agent/read-host.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { parseNftTable } from '../../../lib/nft/table.ts';
import { applyPlan } from '../../../agent/sync.ts';
import { plan } from '../../../agent/decide/plan.ts';
import { findUntracked } from '../../../agent/one-shot.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';

const toBalance = (vip: string, backend: string): Balance => ({
  vip: toEndpoint(vip),
  route: { kind: 'translate', backends: [toEndpoint(backend)], affinitySeconds: 60 },
  masquerade: 'own',
});
const first = toBalance('10.0.0.50:6443', '10.0.0.11:6443');
const second = toBalance('10.0.0.60:6443', '10.0.0.12:6443');
const sixth = toBalance('[fd00::50]:6443', '[fd00::11]:6443');

const dialects = ['nft', 'legacy', 'nftables'] as const;

/** The rules of all three virtual IPs in a dialect, beside these foreign ones of IPv4. */
async function readRules(dialect: (typeof dialects)[number], foreign = '') {
  const kernel = new FakeKernel();
  if (foreign !== '') kernel.run('ipv4', 'nft', `*nat\n${foreign}\nCOMMIT\n`);
  const read = async () => {
    const { iptables, nftTables } = await kernel.read(everything);
    return [...iptables.map(parseSave), ...nftTables.map(parseNftTable)];
  };
  await applyPlan(kernel, plan({ dialect, balances: [first, second, sixth] }, await read()));
  return await read();
}

const find = (...args: Parameters<typeof findUntracked>) => findUntracked(...args).map(formatEndpoint);
const all = ['10.0.0.50:6443', '10.0.0.60:6443', '[fd00::50]:6443'];

describe.each(dialects)('with rules in %s, the kernel forgets the connections', (dialect) => {
  test('to every virtual IP, each named once, where no other rules translate', async () => {
    expect(find(await readRules(dialect), null, new Set()).sort()).toEqual(all);
    expect(
      find(await readRules(dialect, '-A PREROUTING -d 192.0.2.1/32 -j ACCEPT'), null, new Set()),
    ).toHaveLength(3);
  });

  test('to none of a family whose connections other rules translate', async () => {
    const foreign = '-A POSTROUTING -s 10.244.0.0/16 -j MASQUERADE';
    expect(find(await readRules(dialect, foreign), null, new Set())).toEqual(['[fd00::50]:6443']);
    expect(find(await readRules(dialect), null, new Set(['ipv6'])).sort()).toEqual(all.slice(0, 2));
  });

  test('to none beside a virtual IP of its family whose rules stay', async () => {
    const seen = await readRules(dialect);
    expect(find(seen, [first.vip], new Set())).toEqual([]);
    expect(find(seen, [sixth.vip], new Set())).toEqual(['[fd00::50]:6443']);
    expect(find(seen, [first.vip, second.vip], new Set()).sort()).toEqual(all.slice(0, 2));
  });
});

test('nothing is known of rules that cannot be read', async () => {
  const seen = (await readRules('nft')).map((ruleset) =>
    ruleset.dialect === 'legacy' && ruleset.family === 'ipv4'
      ? { ...ruleset, unread: ['nat' as const] }
      : ruleset,
  );
  expect(find(seen, null, new Set())).toEqual(['[fd00::50]:6443']);
});

import { type Family, families, formatEndpoint } from '../../lib/net.ts';
import type { Balance, InstalledBalance, Plan } from '../../lib/dialect.ts';
import { toEndpoint } from '../support/fakes/endpoints.ts';
import { iptablesDialects, type Dialect, nameOwnTable } from '../../lib/kernel/port.ts';
import { describeKernels, everything } from './kinds.ts';
import { type Ruleset, parseSave } from '../../lib/iptables/rules.ts';
import { type NftRuleset, parseNftTable } from '../../lib/nft/table.ts';
import { readNftInstalled as readFromNft } from '../../lib/nft/vip-rules.ts';
import { readIptablesInstalled as readFromIptables } from '../../lib/iptables/vip-rules.ts';
import { plan } from '../../agent/decide/plan.ts';
import { watchChange } from './watching.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test, expect } from '@jest/globals';

const familyToHosts = {
  ipv4: ['10.0.0.50', '10.0.0.51', '10.0.0.11', '10.0.0.12', '10.0.0.13'],
  ipv6: ['[fd00::50]', '[fd00::51]', '[fd00::11]', '[fd00::12]', '[fd00::13]'],
} as const;

/** One VIP over three apiservers. */
function balanceOf(family: Family, affinitySeconds: number | null): Balance {
  const [vip, , ...backends] = familyToHosts[family].map((host) => toEndpoint(`${host}:6443`));
  if (vip === undefined) throw new Error('no VIP');
  return { vip, masquerade: 'own', route: { kind: 'translate', backends, affinitySeconds } };
}

const withoutFirst = (balance: Balance): Balance =>
  balance.route.kind === 'translate'
    ? { ...balance, route: { ...balance.route, backends: balance.route.backends.slice(1) } }
    : balance;

const allBackends = [...iptablesDialects, 'nftables'] as const;
const cases = allBackends.flatMap((dialect) =>
  families.flatMap((family) => [null, 10_800].map((seconds) => ({ dialect, family, seconds }))),
);

const inSync = { tables: [], transactions: [] };

describeKernels((subject) => {
  async function read(dialect: Dialect, family: Family): Promise<Ruleset | NftRuleset> {
    const { iptables, nftTables } = await subject().kernel.read({ ...everything, families: [family] });
    const found = [...iptables.map(parseSave), ...nftTables.map(parseNftTable)].find(
      (ruleset) => ruleset.dialect === dialect,
    );
    if (found === undefined) throw new Error(`${dialect} was not read`);
    return found;
  }

  /** What was written does. */
  async function readBack(dialect: Dialect, balance: Balance): Promise<InstalledBalance | null> {
    const ruleset = await read(dialect, balance.vip.family);
    return ruleset.dialect === 'nftables'
      ? readFromNft(ruleset.table, balance.vip)
      : readFromIptables(ruleset.tables.get('nat'), balance.vip);
  }

  async function planFor(dialect: Dialect, family: Family, balances: readonly Balance[]): Promise<Plan> {
    return plan({ dialect, balances }, [await read(dialect, family)]);
  }

  /** What the product does: reads, then writes. */
  async function write(dialect: Dialect, family: Family, balances: readonly Balance[]): Promise<void> {
    const { transactions } = await planFor(dialect, family, balances);
    for (const transaction of transactions) await subject().kernel.apply(transaction);
  }

  describe.each(cases)(
    'our rules in $dialect, $family, clients kept for $seconds s',
    ({ dialect, family, seconds }) => {
      const balance = balanceOf(family, seconds);
      const other: Balance = {
        ...balance,
        vip: toEndpoint(`${familyToHosts[family][1]}:8443`),
        masquerade: 'none',
      };

      test('are in sync once they are written (I7), whatever the method, and say whom they send connections to', async () => {
        if (balance.route.kind !== 'translate') throw new Error('it translates');
        for (const method of ['random', 'rr', 'hash'] as const) {
          const wanted = [{ ...balance, route: { ...balance.route, method } }, other];
          await write(dialect, family, wanted);
          expect(await planFor(dialect, family, wanted)).toEqual(inSync);
          const { backends } = balance.route;
          expect(await readBack(dialect, balance)).toEqual({ backends, affinitySeconds: seconds });
        }
      });

      test('have other weights in the kernel, which are read back, and equal ones again', async () => {
        if (balance.route.kind !== 'translate') throw new Error('it translates');
        const { backends } = balance.route;
        for (const units of [
          [13, 12, 35],
          [10, 40, 10],
          [1, 1, 58],
          [7, 30, 23],
        ]) {
          const weights = new Map(backends.map((one, at) => [formatEndpoint(one), units[at] ?? 0]));
          const weighed = { ...balance, route: { ...balance.route, weights } };
          await write(dialect, family, [weighed]);
          expect(await planFor(dialect, family, [weighed])).toEqual(inSync);
          expect(await readBack(dialect, balance)).toEqual({ backends, affinitySeconds: seconds, weights });
        }
        await write(dialect, family, [balance]);
        expect(await readBack(dialect, balance)).toEqual({ backends, affinitySeconds: seconds });
      });

      test('follow their apiservers and VIPs, are in sync after each step, and go', async () => {
        for (const wanted of [[balance], [withoutFirst(balance)], [balance, other], [other], []]) {
          await write(dialect, family, wanted);
          expect(await planFor(dialect, family, wanted)).toEqual(inSync);
        }
        expect(await readBack(dialect, balance)).toBeNull();
      });
    },
  );

  test.each(families)('our own table of %s is repaired when somebody changed it', async (family) => {
    const balance = balanceOf(family, 10_800);
    const name = nameOwnTable(family);
    for (const script of [
      `flush chain ${name} prerouting`,
      `add rule ${name} forward counter accept`,
      `add chain ${name} mine`,
      `add table ${name} { flags dormant; }`,
      `delete table ${name}`,
    ]) {
      await write('nftables', family, [balance]);
      await subject().runNft(script);
      expect((await planFor('nftables', family, [balance])).tables).toHaveLength(1);
      await write('nftables', family, [balance]);
      expect(await planFor('nftables', family, [balance])).toEqual(inSync);
    }
  });

  test('a script for it that refers to what is gone is TOOL_FAILED, and changes nothing (I6)', async () => {
    const balance = balanceOf('ipv4', null);
    await write('nftables', 'ipv4', [balance]);
    const { transactions } = await planFor('nftables', 'ipv4', [withoutFirst(balance)]);
    await subject().runNft('delete table ip vipnat');
    for (const transaction of transactions) {
      await expect(subject().kernel.apply(transaction)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    }
    expect(await read('nftables', 'ipv4')).toMatchObject({ table: null });
  });

  test('a write to it triggers', async () => {
    const change = () => subject().runNft('add table ip vipnat');
    expect(await watchChange(subject(), 'nft-generation', change)).toEqual(['nft-generation']);
  });

  test('a rule that somebody takes from it triggers as one of our rules', async () => {
    await write('nftables', 'ipv4', [balanceOf('ipv4', null)]);
    const change = () => subject().runNft('flush chain ip vipnat prerouting');
    expect(await watchChange(subject(), 'own-rules', change)).toEqual(['own-rules']);
  });

  test('a rule that somebody takes from it right after another change triggers as one of our rules, too', async () => {
    await write('nftables', 'ipv4', [balanceOf('ipv4', null)]);
    const change = async () => {
      await subject().runNft('add table ip stranger');
      // Both kinds of change are seen, one after the other.
      await sleep(30);
      await subject().runNft('flush chain ip vipnat prerouting');
    };
    expect(await watchChange(subject(), 'own-rules', change)).toContain('own-rules');
  });
});

import { describe, expect, test } from '@jest/globals';
import { plan, type Plan } from '../../agent/plan.ts';
import { families, type Family } from '../../lib/address/address.ts';
import { type Balance } from '../../lib/netfilter/balance.ts';
import { parseNftTable } from '../../lib/netfilter/nftables/parse.ts';
import { readWrittenBackends } from '../../lib/netfilter/nftables/read-back.ts';
import { type NftTable } from '../../lib/netfilter/nftables/ruleset.ts';
import { toEndpoint } from '../fakes/endpoints.ts';
import { describeKernels, everything } from './kinds.ts';
import { watchDuring } from './watching.ts';

const familyToHosts = {
  ipv4: ['10.0.0.50', '10.0.0.51', '10.0.0.11', '10.0.0.12', '10.0.0.13'],
  ipv6: ['[fd00::50]', '[fd00::51]', '[fd00::11]', '[fd00::12]', '[fd00::13]'],
} as const;

/** One VIP over three apiservers. */
function balanceOf(family: Family, affinitySeconds: number | null): Balance {
  const [vip, , ...backends] = familyToHosts[family].map((host) => toEndpoint(`${host}:6443`));
  if (vip === undefined) throw new Error('no VIP');
  return { vip, masquerade: 'own', route: { way: 'direct', backends, affinitySeconds } };
}

const withoutFirst = (balance: Balance): Balance =>
  balance.route.way === 'direct'
    ? { ...balance, route: { ...balance.route, backends: balance.route.backends.slice(1) } }
    : balance;

describeKernels((subject) => {
  async function read(family: Family): Promise<NftTable | null> {
    const { nftTables } = await subject().kernel.read({ ...everything, families: [family] });
    const [output] = nftTables;
    return output === undefined ? null : parseNftTable(output).table;
  }

  async function planFor(family: Family, balances: readonly Balance[]): Promise<Plan> {
    const seen = { family, backend: 'nftables', table: await read(family) } as const;
    return plan({ backend: 'nftables', balances }, [seen]);
  }

  /** What the product does: reads, then writes. */
  async function write(family: Family, balances: readonly Balance[]): Promise<Plan> {
    const planned = await planFor(family, balances);
    for (const transaction of planned.transactions) await subject().kernel.apply(transaction);
    return planned;
  }

  const inSync = { tables: [], transactions: [] };

  describe.each(families.flatMap((family) => [null, 10_800].map((seconds) => [family, seconds] as const)))(
    'our own table (%s, places of clients kept for %s s)',
    (family, seconds) => {
      const balance = balanceOf(family, seconds);
      const other: Balance = {
        ...balance,
        vip: toEndpoint(`${familyToHosts[family][1]}:8443`),
        masquerade: 'none',
      };

      test('is in sync once it is written (I7), and says whom it sends connections to', async () => {
        await write(family, [balance, other]);
        expect(await planFor(family, [balance, other])).toEqual(inSync);
        const backends = balance.route.way === 'direct' ? balance.route.backends : [];
        expect(readWrittenBackends(await read(family), balance.vip)).toEqual(backends);
      });

      test('follows its apiservers and VIPs, and is in sync after each step', async () => {
        for (const wanted of [[balance], [withoutFirst(balance)], [balance, other], [other]]) {
          await write(family, wanted);
          expect(await planFor(family, wanted)).toEqual(inSync);
        }
        await write(family, []);
        expect(await read(family)).toBeNull();
      });

      test('is repaired when somebody changed it', async () => {
        const name = family === 'ipv6' ? 'ip6 vipnat' : 'ip vipnat';
        for (const script of [
          `flush chain ${name} prerouting`,
          `add rule ${name} forward counter accept`,
          `add chain ${name} mine`,
          `add table ${name} { flags dormant; }`,
          `delete table ${name}`,
        ]) {
          await write(family, [balance]);
          await subject().runNft(script);
          expect((await planFor(family, [balance])).tables).toHaveLength(1);
          await write(family, [balance]);
          expect(await planFor(family, [balance])).toEqual(inSync);
        }
      });
    },
  );

  test('a script that refers to what is gone is TOOL_FAILED, and changes nothing (I6)', async () => {
    const balance = balanceOf('ipv4', null);
    await write('ipv4', [balance]);
    const { transactions } = await planFor('ipv4', [withoutFirst(balance)]);
    await subject().runNft('delete table ip vipnat');
    for (const transaction of transactions) {
      await expect(subject().kernel.apply(transaction)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
    }
    expect(await read('ipv4')).toBeNull();
  });

  test('a write to it triggers', async () => {
    expect(await watchDuring(subject(), () => subject().runNft('add table ip vipnat'))).toEqual([
      'nft-generation',
    ]);
  });
});

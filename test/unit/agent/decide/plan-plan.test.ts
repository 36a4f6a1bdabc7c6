import { type Family, families } from '../../../../lib/net.ts';
import { type IptablesDialect, iptablesDialects } from '../../../../lib/kernel/port.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { type Balance, describeDrift } from '../../../../lib/dialect.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { plan } from '../../../../agent/decide/plan.ts';
import { describe, test, expect } from '@jest/globals';

const read = (family: Family, dialect: IptablesDialect, text = '') => parseSave({ family, dialect, text });
const everywhere = families.flatMap((family) => iptablesDialects.map((dialect) => read(family, dialect)));

const toBalance = (vip: string, backend: string): Balance => ({
  vip: toEndpoint(vip),
  route: { kind: 'translate', backends: [toEndpoint(backend)] },
  masquerade: 'own',
});
const both = [toBalance('10.0.0.50:6443', '10.0.0.11:6443'), toBalance('[fd00::50]:6443', '[fd00::11]:6443')];
const leftover = '*nat\n:VIPNAT - [0:0]\nCOMMIT\n';

describe('plan', () => {
  test('has one transaction for each family, both tables in it, filter first', () => {
    const { transactions } = plan({ dialect: 'legacy', balances: both }, everywhere);
    expect(transactions.map(({ family, dialect }) => `${family} ${dialect}`)).toEqual([
      'ipv4 legacy',
      'ipv6 legacy',
    ]);
    for (const { input } of transactions) {
      expect(input.match(/^(\*\w+|COMMIT)$/gm)).toEqual(['*filter', 'COMMIT', '*nat', 'COMMIT']);
    }
  });

  test('writes the wanted backend before it clears the other one', () => {
    const seen = [read('ipv4', 'nft', leftover), read('ipv4', 'legacy')];
    const { transactions } = plan({ dialect: 'legacy', balances: both }, seen);
    expect(transactions.map(({ dialect }) => dialect)).toEqual(['legacy', 'nft']);
    expect(transactions[1]?.input).toBe('*nat\n:VIPNAT - [0:0]\n-X VIPNAT\nCOMMIT\n');
  });

  test('touches nothing that was not read (I1)', () => {
    const { transactions } = plan({ dialect: 'nft', balances: both }, [read('ipv6', 'nft')]);
    expect(transactions.map(({ family }) => family)).toEqual(['ipv6']);
  });

  test('a table without changes is left out of the script', () => {
    const { transactions } = plan({ dialect: 'nft', balances: [] }, [read('ipv4', 'nft', leftover)]);
    expect(transactions[0]?.input).not.toContain('*filter');
  });

  test('nothing wanted and nothing there is nothing to do', () => {
    expect(plan({ dialect: 'nft', balances: [] }, everywhere)).toEqual({ tables: [], transactions: [] });
  });
});

test('drift is described with its table and tool', () => {
  const seen = [read('ipv6', 'legacy', leftover)];
  expect(describeDrift(plan({ dialect: 'nft', balances: [] }, seen))).toEqual([
    'VIPNAT is left over (nat, ip6tables-legacy)',
  ]);
});

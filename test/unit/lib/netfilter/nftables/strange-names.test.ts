import { expect, test } from '@jest/globals';
import { plan } from '../../../../../agent/decide/plan.ts';
import { parseNftTable } from '../../../../../lib/netfilter/nftables/parse.ts';

test.each(['a;flush', "a'$(reboot)", 'a{', '1;'])(
  'a chain or set in our table whose name would be a command goes with the table: %s',
  (name) => {
    const text = `table ip vipnat {\n\tchain ${name} {\n\t\taccept\n\t}\n\tset ${name} {\n\t\ttype mark\n\t}\n}\n`;
    const seen = parseNftTable({ family: 'ipv4', text });
    const { transactions } = plan({ dialect: 'nftables', balances: [] }, [seen]);
    expect(transactions.map(({ input }) => input)).toEqual(['delete table ip vipnat\n']);
    expect(seen.table?.others).toEqual([`chain ${name}`, `set ${name}`]);
  },
);

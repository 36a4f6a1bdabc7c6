import {
  parseNftTable,
  declareMemory,
  hasSameNftMeaning,
  hasSameDeclaration,
} from '../../../../lib/nft/table.ts';
import { describe, test, expect } from '@jest/globals';
import { plan } from '../../../../agent/decide/plan.ts';

const parse = (text: string) => parseNftTable({ family: 'ipv4', text }).table;

/** As nft 1.0.6 prints, but for the map that it would break after more elements. */
const printed = `table ip vipnat {
	comment "somebody's"
	flags dormant

	set S {
		type ipv4_addr
		size 65535
		flags dynamic,timeout
		timeout 10800s
		elements = { 10.0.0.1 timeout 3h expires 2h59m,
			     10.0.0.2 timeout 3h expires 2h59m }
	}

	counter c {
		packets 0 bytes 0
	}

	chain V {
		meta l4proto 6 dnat ip to numgen random mod 2 map { 0 : 10.0.0.11 . 6443,
								    1 : 10.0.0.12 . 6443 } comment "vipnat:x{"
	}

	chain prerouting {
		type nat hook prerouting priority -105; policy accept;
		ip daddr 10.0.0.50 tcp dport 6443 jump V
	}
}
`;

describe("nft's print of our table", () => {
  test('is read whole, rules over several lines included', () => {
    expect(parse(printed)).toEqual({
      flags: 'dormant',
      sets: new Map([['S', declareMemory('ipv4_addr', 10_800)]]),
      chains: new Map([
        [
          'V',
          {
            hook: null,
            rules: [
              'meta l4proto 6 dnat ip to numgen random mod 2 map { 0 : 10.0.0.11 . 6443, 1 : 10.0.0.12 . 6443 } comment "vipnat:x{"',
            ],
          },
        ],
        [
          'prerouting',
          {
            hook: 'type nat hook prerouting priority -105; policy accept;',
            rules: ['ip daddr 10.0.0.50 tcp dport 6443 jump V'],
          },
        ],
      ]),
      others: ['counter c'],
    });
  });

  test('that is empty is no table', () => {
    expect(parse('')).toBeNull();
  });

  test('is whole or an error with a code, wherever it is cut off', () => {
    for (let length = 1; length < printed.trimEnd().length; length += 1) {
      expect(() => parse(printed.slice(0, length))).toThrow(
        expect.objectContaining({ code: 'TOOL_OUTPUT_UNEXPECTED' }),
      );
    }
  });

  test("is not taken for ours when it is another family's or another table", () => {
    expect(() => parse(printed.replace('ip vipnat', 'ip6 vipnat'))).toThrow('it begins otherwise');
    expect(() => parse(printed.replace('ip vipnat', 'ip filter'))).toThrow('it begins otherwise');
  });
});

const rule = 'meta l4proto tcp ct status dnat dnat ip to 10.0.0.11:6443 comment "vipnat:x"';

const opening = 'tcp flags & (fin | syn | rst | ack) == syn jump V';

test.each([
  [true, rule, 'meta l4proto 6 ct status 0x20 dnat to 10.0.0.11:6443 comment "vipnat:x"'],
  [true, rule, rule.replace('status dnat', 'status 0x00000020')],
  [false, rule, rule.replace('.11', '.12')],
  [false, rule, rule.replace('6443', '6444')],
  [false, rule, rule.replace('tcp', '17')],
  [false, rule, rule.replace('status dnat', 'status 0x10')],
  [false, rule, rule.replace('vipnat:x', 'vipnat:y')],
  // nft 1.1.7 and 1.0.6, with and without -n.
  [true, opening, 'tcp flags & (0x1 | 0x2 | 0x4 | 0x10) == 0x2 jump V'],
  [true, opening, 'tcp flags syn / fin,syn,rst,ack jump V'],
  [true, opening, 'tcp flags 0x2 / 0x1,0x2,0x4,0x10 jump V'],
  [true, opening, 'tcp flags & 0x17 == 0x2 jump V'],
  [false, opening, 'jump V'],
  [false, opening, 'tcp flags syn jump V'],
  [false, opening, 'tcp flags != 0x2 / 0x1,0x2,0x4,0x10 jump V'],
  [false, opening, 'tcp flags 0x12 / 0x1,0x2,0x4,0x10 jump V'],
  [false, opening, 'tcp flags 0x2 / 0x1,0x2,0x4 jump V'],
  [false, opening, 'tcp flags syn / fin,syn,rst,ack,cwr jump V'],
  [false, opening, 'tcp flags & (fin | syn | rst | ack) != syn jump V'],
  [false, opening, 'tcp flags & (fin | syn | rst | ack) == syn | ack jump V'],
  [false, opening, 'tcp flags syn / fin,syn,rst,ack counter jump V'],
])('a rule means the same as it is printed, %s: "%s", "%s"', (isSame, written, printed) => {
  expect(hasSameNftMeaning(written, printed)).toBe(isSame);
});

test("a set's timeout is the same in any unit", () => {
  expect(hasSameDeclaration('timeout 10800s', 'timeout 3h')).toBe(true);
  expect(hasSameDeclaration('timeout 5400s', 'timeout 1h30m')).toBe(true);
  expect(hasSameDeclaration('timeout 10800s', 'timeout 3m')).toBe(false);
});

test.each(['a;flush', "a'$(reboot)", 'a{', '1;'])('a name of commands goes with its table: %s', (name) => {
  const text = `table ip vipnat {\n\tchain ${name} {\n\t\taccept\n\t}\n\tset ${name} {\n\t\ttype mark\n\t}\n}\n`;
  const seen = parseNftTable({ family: 'ipv4', text });
  const { transactions } = plan({ dialect: 'nftables', balances: [] }, [seen]);
  expect(transactions.map(({ input }) => input)).toEqual(['delete table ip vipnat\n']);
  expect(seen.table?.others).toEqual([`chain ${name}`, `set ${name}`]);
});

import { expect, test } from '@jest/globals';
import { hasSameMeaning } from '../../../../../lib/netfilter/iptables/language.ts';

const rendered =
  '-p tcp -m comment --comment "vipnat:a" -m statistic --mode random --probability 0.3333333333 -m tcp -j DNAT --to-destination 10.0.0.1:6443';
const printed =
  '-p tcp -m comment --comment "vipnat:a" -m statistic --mode random --probability 0.33333333349 -m tcp -j DNAT --to-destination 10.0.0.1:6443';

test('a rule means the same after the tool rounded its probability', () => {
  expect(hasSameMeaning(rendered, printed)).toBe(true);
});

test('a rule means the same with or without the prefix length of one address', () => {
  expect(hasSameMeaning('-d fd00::50 -p tcp -j VIPNAT', '-d fd00::50/128 -p tcp -j VIPNAT')).toBe(true);
});

test.each([
  ['another destination', printed.replace('10.0.0.1', '10.0.0.9')],
  ['another probability', printed.replace('0.33333333349', '0.33000000000')],
  ['no probability', printed.replace(/-m statistic .* (?=-m tcp)/, '')],
  ['an additional match', printed.replace('-m tcp', '-s 10.0.0.0/8 -m tcp')],
  ['a negated match', printed.replace('-p tcp', '! -p tcp')],
  ['another comment', printed.replace('vipnat:a', 'vipnat:b')],
  ['another target', printed.replace(/-j .*/, '-j ACCEPT')],
  ['nothing', ''],
])('%s is an edit', (_what, edited) => {
  expect(hasSameMeaning(rendered, edited)).toBe(false);
});

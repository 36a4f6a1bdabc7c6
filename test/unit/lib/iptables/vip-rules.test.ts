import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { vipChainName, type Balance } from '../../../../lib/dialect.ts';
import { signRules } from '../../../../lib/iptables/rules.ts';
import { renderRoute, readIptablesInstalled } from '../../../../lib/iptables/vip-rules.ts';
import { describe, test, expect } from '@jest/globals';

const vip = toEndpoint('[fd00::50]:6443');
const chain = vipChainName(vip);
const backends = ['[fd00::11]:6443', '[fd00::12]:6443', '[fd00::13]:6443'].map(toEndpoint);
const route = { kind: 'translate', backends } as const;
const direct: Balance = { vip, route, masquerade: 'own' };

/** A chain as the tools print it after it was written. */
function print(balance: Balance): string[] {
  return signRules(chain, renderRoute(balance)).map(({ text }) =>
    text
      .replace('--probability 0.3333333333', '--probability 0.33333333349')
      .replace('0.5000000000', '0.50000000000'),
  );
}

const readBack = (rules: readonly string[]) => readIptablesInstalled(new Map([[chain, rules]]), vip);

describe('what an agent that is gone balanced over', () => {
  test.each(['own', 'kube-mark', 'none'] as const)('is read from its rules: masquerade %s', (masquerade) => {
    expect(readBack(print({ ...direct, masquerade }))).toEqual({ backends, affinitySeconds: null });
  });

  test.each<[string, Balance['route']]>([
    ['passthrough', { kind: 'translate', backends: [] }],
    ['service-chain', { kind: 'jump', chain: 'KUBE-SVC-NPX46M4PTMTKRN6Y' }],
  ])('is not known from the way %s', (_way, route) => {
    expect(readBack(print({ ...direct, route }))).toBeNull();
  });

  test('is not known without a table or a chain', () => {
    expect(readIptablesInstalled(undefined, vip)).toBeNull();
    expect(readIptablesInstalled(new Map(), vip)).toBeNull();
  });
});

describe('rules that say nothing, because somebody else can have written them', () => {
  test.each<[string, (rules: string[]) => string[]]>([
    ['an edited destination', ([first = '', ...rest]) => [first.replace('fd00::11', 'fd00::66'), ...rest]],
    ['a backend taken out', ([, ...rest]) => rest],
    ['a rule added', (rules) => [...rules, '-j RETURN']],
    ['another order', (rules) => rules.toReversed()],
    ['no comments', (rules) => rules.map((rule) => rule.replace(/-m comment --comment "\S+" /, ''))],
    ['another chance', ([first = '', ...rest]) => [first.replace('0.33333333349', '0.99000000000'), ...rest]],
  ])('%s', (_what, edit) => {
    expect(readBack(edit(print(direct)))).toBeNull();
  });

  test('rules of another VIP', () => {
    const next = toEndpoint('[fd00::51]:6443');
    const rules = signRules(vipChainName(next), renderRoute({ ...direct, vip: next })).map((one) => one.text);
    expect(readBack(rules)).toBeNull();
  });
});

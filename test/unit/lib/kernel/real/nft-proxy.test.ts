import { expect, test } from '@jest/globals';
import { listReferred } from '../../../../../lib/kernel/real/nft-proxy.ts';

const toRule = (target: string, set: string) => ({
  rule: { expr: [{ goto: { target } }, { match: { right: `@${set}` } }] },
});

test('what rules refer to is asked for by its name', () => {
  const endpoint = 'endpoint-5OJB2KTY-default/kubernetes/tcp/https__10.0.0.11/6443';
  const rules = [toRule(endpoint, 'affinity-A-default/kubernetes'), toRule(endpoint, 'affinity-B')];
  expect(listReferred(rules)).toEqual({ chains: [endpoint], sets: ['affinity-A-default/kubernetes'] });
});

test.each(['endpoint-a; flush ruleset', 'endpoint-a\nflush ruleset', 'endpoint-{', 'endpoint-$x'])(
  'a name that nft would read as more than a name is not asked for: %j',
  (target) => {
    expect(listReferred([toRule(target, 'affinity-x; flush ruleset')])).toEqual({ chains: [], sets: [] });
  },
);

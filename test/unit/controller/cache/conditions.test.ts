import { expect, test } from '@jest/globals';
import { makeService } from '../../../support/fakes/service-objects.ts';
import { decide } from '../../../support/fakes/service-steps.ts';
import { setCondition } from '../../../../controller/cache/object-parts.ts';

test('a message is cut to what the API takes, and is then as wanted', () => {
  const wanted = { type: 'A', status: 'True', reason: 'B', message: 'x'.repeat(40_000) } as const;
  const conditions = setCondition([], wanted, 0);
  expect(conditions[0]?.message).toHaveLength(32_768);
  expect(setCondition(conditions, wanted, 1)).toBe(conditions);
});

test.each([
  ['vipnat.io/addresses', '\u0001'.repeat(200_000)],
  ['vipnat.io/addresses', `10.0.9.10,10.0.9.11${'x'.repeat(200_000)}`],
  ['vipnat.io/pool', '\u0001'.repeat(200_000)],
  ['vipnat.io/method', '\u0001'.repeat(200_000)],
])('what a tenant writes into %s is quoted with a limit', (name, text) => {
  const service = makeService('apps/a', { metadata: { annotations: { [name]: text } } });
  expect(JSON.stringify(decide({ services: [service] })).length).toBeLessThan(2000);
});

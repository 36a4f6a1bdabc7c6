import { describe, test, expect } from '@jest/globals';
import type { EarlySlice } from '../../../lib/api/endpoints.ts';
import { settle, makeMany, decide, listAddresses } from '../../support/fakes/slice-steps.ts';
import { makePod } from '../../support/fakes/service-objects.ts';

describe('many endpoints', () => {
  const findKey = (slices: readonly EarlySlice[], pod: string) => {
    const found = slices.find(({ endpoints }) => endpoints?.some(({ targetRef }) => targetRef?.name === pod));
    return `apps/${found?.metadata.name}`;
  };

  test('are in slices of at most a hundred, and one that goes leaves the others where they are', () => {
    const slices = settle(makeMany(250));
    expect(slices.map(({ endpoints }) => endpoints?.length)).toEqual([100, 100, 50]);
    const fewer = makeMany(250).filter(({ metadata }) => metadata.name !== 'p3');
    const step = decide(fewer, { slices });
    const key = findKey(slices, 'p3');
    expect(step).toMatchObject({ write: { method: 'PATCH', key } });
    expect(listAddresses(step)).toHaveLength(99);
    const after = settle(fewer, { slices });
    expect(decide(fewer, { slices: after })).toEqual({ does: 'nothing' });
    // The next one comes into the place that is free.
    const more = [...fewer, ...makeMany(1, 250)];
    expect(decide(more, { slices: after })).toMatchObject({ write: { key, method: 'PATCH' } });
  });

  test('a change of one costs one write', () => {
    const slices = settle(makeMany(150));
    const pods = makeMany(150).map((pod) =>
      pod.metadata.name === 'p120'
        ? makePod('apps/p120', { status: { ...pod.status, conditions: [] } })
        : pod,
    );
    expect(decide(pods, { slices })).toMatchObject({ write: { key: findKey(slices, 'p120') } });
    expect(decide(pods, { slices: settle(pods, { slices }) })).toEqual({ does: 'nothing' });
  });
});

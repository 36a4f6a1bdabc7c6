import { reserveAddresses, judgePools } from '../../../../controller/cache/pools.ts';
import { makePool } from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';

function judge(spec: Readonly<Record<string, unknown>>, reserved: readonly string[] = []) {
  const ranges = reserveAddresses(reserved, 'somebody');
  return judgePools([makePool('pool', spec)], ranges).get('pool')?.refusal?.reason ?? null;
}

describe('judgePools', () => {
  test.each([
    [['10.0.9.10-10.0.9.99', 'fd00::/120'], null],
    [['10.0.9.5/24'], 'AddressesMalformed'],
    [['nonsense'], 'AddressesMalformed'],
    [['0.0.0.0/0'], 'AddressesNotUnicast'],
    [['::/0'], 'AddressesNotUnicast'],
    [['126.0.0.0-128.0.0.0'], 'AddressesNotUnicast'],
    [['224.0.0.1'], 'AddressesNotUnicast'],
    [['fe80::1'], 'AddressesNotUnicast'],
    [['169.254.1.1'], 'AddressesNotUnicast'],
    [['::ffff:10.0.0.1'], 'AddressesNotUnicast'],
  ])('%j: %s', (addresses, reason) => {
    expect(judge({ addresses })).toBe(reason);
  });

  test('addresses of others, selectors and durations', () => {
    const addresses = ['10.0.9.10-10.0.9.20'];
    expect(judge({ addresses }, ['10.0.9.21'])).toBeNull();
    expect(judge({ addresses }, ['10.0.9.20'])).toBe('AddressesReserved');
    expect(judge({ addresses, reuseAfter: '1 minute' })).toBe('DurationMalformed');
    const nodeSelector = { matchExpressions: [{ key: 'a', operator: 'Like' }] };
    expect(judge({ addresses, nodeSelector })).toBe('SelectorMalformed');
  });

  test('of two that overlap the younger one is refused', () => {
    const make = (name: string, creationTimestamp: string) =>
      makePool(name, { addresses: ['10.0.9.0/24'] }, { metadata: { creationTimestamp } });
    const judged = judgePools([make('a', '2027-01-02T00:00:00Z'), make('b', '2027-01-01T00:00:00Z')], []);
    expect(judged.get('b')?.refusal).toBeNull();
    expect(judged.get('a')?.refusal).toMatchObject({
      reason: 'PoolsOverlap',
      message: expect.stringContaining('The pool b'),
    });
  });
});

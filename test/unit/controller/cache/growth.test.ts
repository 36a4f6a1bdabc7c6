import { describe, expect, test } from '@jest/globals';
import { nextStep } from '../../../../controller/kinds/kinds.ts';
import { countSteps } from '../../../support/fakes/count-steps.ts';
import {
  makeNode,
  makePool,
  makeReport,
  makeService,
  makeCache,
  nowMs,
} from '../../../support/fakes/service-objects.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

const put = <T>(after: T | null, before: T | null, key: string) => ({ key, before, after });

const pool = makePool('pool', { addresses: ['10.0.0.0/16'] });

describe('twice of what one writes is at most twice the work', () => {
  const ips = (length: number) => Array.from({ length }, (_, at) => `10.${at >> 8}.${at & 255}.1`);
  const grow = (run: (length: number) => void) => {
    const [one = 0, two = 0] = [400, 800].map((length) =>
      countSteps(() => {
        run(length);
      }),
    );
    return two / one;
  };

  test('external IPs of a Service: when it comes, when others take their place, and when another field changes', () => {
    const make = (length: number, version: string, shift = 0) =>
      makeService('apps/a', {
        metadata: { resourceVersion: version },
        spec: { externalIPs: ips(length + shift).slice(shift) },
      });
    const run = (length: number) => {
      const [first, second, third] = [make(length, '1'), make(length, '2'), make(length, '3', length)];
      const cache = makeCache({ pools: [pool] });
      for (const [before, after] of [
        [null, first],
        [first, second],
        [second, third],
      ] as const)
        cache.take('services', put(after, before, 'apps/a'));
    };
    expect(grow(run)).toBeLessThan(2.1);
  });

  test('addresses that a node finds in use', () => {
    const run = (length: number) => {
      const cache = makeCache({ pools: [pool] });
      cache.takeReport('x', makeReport('x', 1, { inUse: ips(length) }));
      cache.takeReport('x', makeReport('x', 1, { inUse: ips(2 * length).slice(length) }));
    };
    expect(grow(run)).toBeLessThan(2.1);
  });
});

test('a look at a pool costs nothing for the addresses that Services name, as long as these stay', () => {
  const of = { kind: 'AddressPool', key: 'pool' } as const;
  const services = Array.from({ length: 100 }, (_, at) =>
    makeService(`apps/a${at}`, { spec: { externalIPs: [`10.0.9.${at}`] } }),
  );
  const seats = [0, 1, 2, 3].map((index) => makeSeat(index, '10.0.9.0', ['node-1']));
  const count = (some: typeof services) => {
    const cache = makeCache({
      pools: [makePool('pool', { addresses: ['10.0.9.0/24'] }, { status: { seats } })],
      services: some,
      nodes: [makeNode('node-1')],
    });
    nextStep(of, cache.view(nowMs));
    return countSteps(() => nextStep(of, cache.view(nowMs)));
  };
  expect(count(services)).toBeLessThan(count(services.slice(0, 4)) + 10);
});

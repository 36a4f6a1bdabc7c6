import type { BalancedService } from '../../../../balancer/services/backends.ts';
import { makeEndpoints } from '../../../support/kube-api/service-objects.ts';
import { makeService } from '../../../support/fakes/service-objects.ts';
import { endpointSlices } from '../../../../lib/api/service.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { SlowStarts } from '../../../../balancer/services/follow.ts';
import { test, expect } from '@jest/globals';

const key = 'default/web';

/** A Service with these pods, `ADDRESS:UID` where the uid matters; those behind a `-` are not ready. */
function make(pods: readonly string[], slowStart: string | null = '30s', name = 'web'): BalancedService {
  const annotations = slowStart === null ? {} : { 'vipnat.io/slow-start': slowStart };
  const endpoints = pods.map((pod) => {
    const [last = '', uid] = pod.replace('-', '').split(':');
    return {
      addresses: [`10.244.1.${last}`],
      conditions: { ready: !pod.startsWith('-') },
      ...(uid === undefined ? {} : { targetRef: { kind: 'Pod', name: `web-${uid}`, uid } }),
    };
  });
  const { metadata, ...slice } = makeEndpoints(name, [{ port: 8080 }], endpoints);
  return {
    service: makeService(`default/${name}`, { metadata: { annotations } }),
    slices: [endpointSlices.schema.parse({ ...slice, metadata: { ...metadata, resourceVersion: '1' } })],
    weights: new Map([['10.244.1.1', 2]]),
    addresses: { ipv4: ['10.0.9.10'], ipv6: [] },
  };
}

function start() {
  const clock = new FakeClock();
  const due: { at: number; services: readonly string[] }[] = [];
  const starts = new SlowStarts(clock, (services) => {
    due.push({ at: clock.now(), services });
  });
  /** The weights of the pods 1, 2 and 3; undefined stands for the usual one. */
  const weigh = (balanced: BalancedService | null) =>
    [1, 2, 3].map((last) => starts.weigh(key, balanced)?.weights.get(`10.244.1.${last}`));
  return { clock, due, starts, weigh };
}

const asUsual = [2, undefined, undefined];

test('a pod that becomes ready gets its share in ten steps; those that were there are not new', async () => {
  const { clock, due, weigh } = start();
  expect(weigh(make(['1', '2', '-3']))).toEqual(asUsual);
  await clock.advance(100_000);
  const seen: unknown[] = [weigh(make(['1', '2', '3']))];
  while (seen.length < 10) {
    await clock.advance(3000);
    seen.push(weigh(make(['1', '2', '3'])));
  }
  expect(seen).toEqual([...[1, 2, 3, 4, 5, 6, 7, 8, 9].map((step) => [20, 10, step]), asUsual]);
  await clock.advance(100_000);
  expect(due.map(({ at }) => at)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9].map((step) => 100_000 + step * 3000));
  expect(clock.pending).toBe(0);
});

test('one that fails its probe, or moves from slice to slice, is not new when it is ready again', async () => {
  const { clock, weigh } = start();
  weigh(make(['1', '2']));
  weigh(make(['1', '-2']));
  weigh(make(['1']));
  await clock.advance(29_000);
  expect(weigh(make(['1', '2']))).toEqual(asUsual);
  weigh(make(['1']));
  await clock.advance(30_000);
  weigh(make(['1']));
  expect(weigh(make(['1', '2']))).toEqual([20, 1, undefined]);
});

test('another pod at the same address is new, and its predecessor in the same slices does not hide it', async () => {
  const { clock, weigh } = start();
  weigh(make(['1:a', '2:b']));
  weigh(make(['1:a']));
  await clock.advance(10_000);
  expect(weigh(make(['1:a', '2:b']))).toEqual(asUsual);
  expect(weigh(make(['1:a', '-2:b', '-2:c']))).toEqual(asUsual);
  expect(weigh(make(['1:a', '-2:b', '2:c']))).toEqual([20, 1, undefined]);
  await clock.advance(3000);
  expect(weigh(make(['1:a', '2:c']))).toEqual([20, 2, undefined]);
});

test('a Service without the annotation, and one that gets it, has no new pods', () => {
  const { weigh } = start();
  expect(weigh(make(['1', '2'], null))).toEqual(asUsual);
  expect(weigh(make(['1', '2', '3'], null))).toEqual(asUsual);
  expect(weigh(make(['1', '2', '3']))).toEqual(asUsual);
  expect(weigh(make(['1', '2', '3'], 'soon'))).toEqual(asUsual);
  expect(weigh(null)).toEqual([undefined, undefined, undefined]);
});

test('whatever the date does, and however many start at once, there is one step a second at most', async () => {
  const { clock, due, starts } = start();
  const names = Array.from({ length: 50 }, (_, at) => `web${at}`);
  for (const name of names) starts.weigh(`default/${name}`, make([], '4s', name));
  for (let at = 0; at < 100; at += 1) {
    for (const name of names.slice(0, at)) starts.weigh(`default/${name}`, make(['1'], '4s', name));
    clock.jump(at % 2 === 0 ? 86_400_000 : -86_400_000);
    await clock.advance(100);
    expect(clock.pending).toBeLessThanOrEqual(1);
  }
  const pauses = due.slice(1).map(({ at }, index) => at - (due[index]?.at ?? 0));
  expect(due.length).toBeGreaterThan(5);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(1000);
  starts.stop();
  await clock.advance(10_000);
  expect(clock.pending).toBe(0);
});

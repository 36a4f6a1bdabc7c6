/** What many Services cost an Alteon, in requests: docs/benchmarks.md has the figures of 500. */
import { afterEach, expect, test } from '@jest/globals';
import { AlteonScale } from '../support/devices/alteon-scale.ts';
import { signal, startWorld, stopWorlds, toAddress, toBalancer } from '../support/devices/alteon-world.ts';

const scales: AlteonScale[] = [];
afterEach(async () => {
  await stopWorlds();
  for (const scale of scales.splice(0)) await scale.stop();
});

const callsPerSecond = 20;

test('a change of many costs little more than its writes, one look at all as much as one at one, and no second has more than its budget', async () => {
  const scale = await AlteonScale.start({ services: 40, pods: 4, callMs: 1, callsPerSecond });
  scales.push(scale);
  const first = await scale.measure(() => undefined);
  // A group, three rows of an address, and three of each pod.
  expect(first.writes).toBeGreaterThanOrEqual(40 * 16);
  expect(first.calls).toBeLessThan(1.5 * first.writes);
  const change = await scale.measure(() => {
    scale.replacePods(40, 1);
  });
  // A pod comes, and another one goes.
  expect(change.calls / 80).toBeLessThanOrEqual(4);
  const callMs = [...scale.callMs];
  const restart = await scale.measure(() => scale.world.restart());
  expect(restart).toMatchObject({ writes: 0 });
  expect(restart.calls).toBeLessThan(60);
  // A burst after a rest, and what comes in a second.
  const spans = callMs.map((ms, at) => (callMs[at + 2 * callsPerSecond] ?? Infinity) - ms);
  expect(Math.min(...spans)).toBeGreaterThanOrEqual(1000);
});

test('what a unit refuses of one of many keeps no other from being served', async () => {
  const world = await startWorld();
  world.device.onCall = ({ method, path }) => {
    if (method === 'POST' && path.includes('uid-5')) world.device.faults.refusedWrites = 1;
  };
  const all = Array.from({ length: 12 }, (_, at) =>
    toBalancer(['10.1.0.1:8080'], {
      id: { cluster: 'prod', namespace: 'shop', name: `s${at}`, uid: `uid-${at}` },
      addresses: [toAddress(`192.0.2.${at}`)],
    }),
  );
  const progress = await Promise.all(all.map((one) => world.driver.ensure(one, signal)));
  expect(progress.map(({ result }) => result)).toEqual(all.map((_, at) => (at === 5 ? 'failed' : 'done')));
  expect(world.device.readServed()).toHaveLength(11);
});

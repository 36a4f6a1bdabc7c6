import { test, expect } from '@jest/globals';
import { play } from './timeline.ts';
import { nft } from './host.ts';

test('the write that answers a death was made ready, so was the next one, and nothing is ready after the end', async () => {
  const { kernel, running } = await play('m3 refusing; wait 1000; m2 refusing; wait 1000');
  // The first is the one at the start: a write by a process that has not looked yet is never ready.
  expect(kernel.wasReady).toEqual([false, true, true]);
  expect(kernel.ready).toEqual([nft]);
  await running.agent.stop();
  expect(kernel.ready).toEqual([]);
});

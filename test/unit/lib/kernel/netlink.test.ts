import { createNetlinkClient, parseAttributes } from '../../../../lib/kernel/netlink.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { afterEach, test, expect } from '@jest/globals';

const client = createNetlinkClient('route');
const realClock = { ...systemClock };

/** RTM_GETADDR of linux/rtnetlink.h, for any family. */
const question = { type: 22, payload: Buffer.alloc(8), isDump: true, subject: 'the addresses' };

afterEach(() => {
  client.close();
  Object.assign(systemClock, realClock);
});

test('an answer that is there is taken, also by a process that had no time to look for it within the limit', async () => {
  await client.request(question);
  // From here on, Node runs due timers before it looks at its sockets.
  await new Promise((resolve) => setImmediate(resolve));
  const answered = client.request(question);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1100);
  expect(await answered).toEqual(expect.arrayContaining([expect.objectContaining({ type: 20 })]));
});

test('a request while another one is pending is refused, and that one is answered', async () => {
  const pending = client.request(question);
  await expect(client.request(question)).rejects.toThrow('another request is pending');
  expect(await pending).not.toEqual([]);
});

test('nothing waits for an answer that is there', async () => {
  const waits = new Set<() => void>();
  let begun = 0;
  systemClock.schedule = (_, onLimit) => {
    begun += 1;
    waits.add(onLimit);
    return () => waits.delete(onLimit);
  };
  await client.request(question);
  expect([begun > 1, waits.size]).toEqual([true, 0]);
});

test('an attribute of no data is one', () => {
  expect(parseAttributes(Buffer.from([4, 0, 1, 0]), 0).get(1)).toHaveLength(0);
});

import { createNetlinkClient, parseMessages, parseAttributes } from '../../../../lib/kernel/netlink.ts';
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

/** A message of no data that says it is so long. */
function message(length: number): Buffer {
  const header = Buffer.alloc(16);
  header.writeUInt32LE(length, 0);
  header.writeUInt16LE(20, 4);
  return header;
}

test.each([0xffff_ffff, 0x8000_0000, 17, 15, 0])('a message of %i bytes ends its datagram', (length) => {
  expect(parseMessages(Buffer.concat([message(16), message(length)]))).toHaveLength(1);
});

test('an attribute that is longer than its message is none, and one of no data is one', () => {
  const attribute = Buffer.from([8, 0, 1, 0, 10, 0, 0]);
  expect(parseAttributes(attribute, 0).size).toBe(0);
  expect(parseAttributes(Buffer.from([4, 0, 1, 0]), 0).get(1)).toHaveLength(0);
});

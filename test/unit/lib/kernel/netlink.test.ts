import { test, expect } from '@jest/globals';
import { parseMessages, parseAttributes } from '../../../../lib/kernel/netlink.ts';

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

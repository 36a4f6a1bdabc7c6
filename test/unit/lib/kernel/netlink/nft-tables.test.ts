import { expect, test } from '@jest/globals';
import { type NetlinkMessage } from '../../../../../lib/kernel/netlink/netlink-messages.ts';
import { readTableHandles } from '../../../../../lib/kernel/netlink/nft-tables.ts';

test('a table is found by its name in both families, whatever else there is', async () => {
  const messages = [
    table(2, 'nat', 1n),
    table(2, 'vipnat-lb', 7n),
    table(10, 'vipnat-lb', 0x1_0000_0001n),
    table(1, 'vipnat-lb', 9n),
    table(10, 'vipnat-lb-2', 4n),
  ];
  expect(await readTableHandles(answering(messages), 'vipnat-lb')).toEqual({ ipv4: 7, ipv6: 4_294_967_297 });
});

test('where there is none, there is no handle', async () => {
  expect(await readTableHandles(answering([table(2, 'nat', 1n)]), 'vipnat-lb')).toEqual({
    ipv4: null,
    ipv6: null,
  });
});

function answering(messages: readonly NetlinkMessage[]) {
  return { request: () => Promise.resolve(messages), close: () => undefined };
}

/** NFT_MSG_NEWTABLE with NFTA_TABLE_NAME, NFTA_TABLE_FLAGS and NFTA_TABLE_HANDLE. */
function table(family: number, name: string, handle: bigint): NetlinkMessage {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(handle);
  const attributes = [
    attribute(1, Buffer.from(`${name}\0`)),
    attribute(2, Buffer.alloc(4)),
    attribute(4, number),
  ];
  return {
    type: 0x0a00,
    flags: 0,
    sequence: 1,
    data: Buffer.concat([Buffer.from([family, 0, 0, 0]), ...attributes]),
  };
}

function attribute(type: number, value: Buffer): Buffer {
  const header = Buffer.alloc(4);
  header.writeUInt16LE(4 + value.length, 0);
  header.writeUInt16LE(type, 2);
  return Buffer.concat([header, value, Buffer.alloc(-value.length & 3)]);
}

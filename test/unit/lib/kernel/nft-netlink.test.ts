import {
  type ElementChange,
  renderElementChanges,
  readOneMoment,
} from '../../../../lib/kernel/nft-netlink.ts';
import { test, expect, describe } from '@jest/globals';
import {
  type NetlinkMessage,
  type NetlinkQuestioner,
  renderAttribute as attribute,
  readTableHandles,
} from '../../../../lib/kernel/netlink.ts';

const slots: ElementChange = {
  ...{ family: 'ipv4', table: 't', set: 's', removed: [] },
  declaration: 'typeof numgen inc mod 2 : ip daddr . tcp dport',
  added: [['6', '10.128.0.10 . 8080']],
};

/** What the kernel makes of the messages, test/host/netns/balancer-elements.test.ts has. */
describe('nft is needed', () => {
  test.each([
    ...['type ipv4_addr . inet_proto . inet_service : verdict', 'type ipv4_addr; flags interval'],
    ...['type ifname : ipv4_addr', ''],
  ])('for %s', (declaration) => {
    expect(renderElementChanges([slots, { ...slots, declaration }])).toBeNull();
  });

  test('for more than 1,000 elements; less are split, as an attribute takes 64 kB', () => {
    const added = Array.from({ length: 1001 }, (_, at) => [String(at), `10.0.0.1 . ${at}`] as const);
    expect(renderElementChanges([{ ...slots, added }])).toBeNull();
    expect(renderElementChanges([{ ...slots, added: added.slice(1) }])).toHaveLength(2);
  });
});

test('a table is found by its name in both families, whatever else there is', async () => {
  const messages = [
    table(2, 'nat', 1n),
    table(2, 'vipnat-lb', 7n),
    table(10, 'vipnat-lb', 0x1_0000_0001n),
    table(1, 'vipnat-lb', 9n),
    table(10, 'vipnat-lb-2', 4n),
  ];
  expect(await readTableHandles(answering(messages), 'vipnat-lb')).toEqual({ ipv4: 7, ipv6: 4_294_967_297 });
  expect(await readTableHandles(answering(messages), 'nat')).toEqual({ ipv4: 1, ipv6: null });
});

function answering(messages: readonly NetlinkMessage[]) {
  return { request: () => Promise.resolve(messages), close: () => undefined };
}

/** NFT_MSG_NEWTABLE with NFTA_TABLE_NAME, NFTA_TABLE_FLAGS and NFTA_TABLE_HANDLE. */
function table(family: number, name: string, handle: bigint): NetlinkMessage {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(handle);
  const parts = [attribute(1, Buffer.from(`${name}\0`)), attribute(2, Buffer.alloc(4)), attribute(4, number)];
  return {
    ...{ type: 0x0a00, flags: 0, sequence: 1 },
    data: Buffer.concat([Buffer.from([family, 0, 0, 0]), ...parts]),
  };
}

// linux/netfilter/nf_tables.h
const NFTA_GEN_ID = 1;

/** A kernel that others commit to: it tells these generations one after the other, then the last one. */
function start(generations: readonly number[]): NetlinkQuestioner {
  let asked = 0;
  return {
    request: () => {
      const id = Buffer.alloc(4);
      id.writeUInt32BE(generations[Math.min(asked, generations.length - 1)] ?? 0);
      asked += 1;
      const data = Buffer.concat([Buffer.alloc(4), attribute(NFTA_GEN_ID, id)]);
      return Promise.resolve([{ type: 0x0a0f, flags: 0, sequence: 1, data }]);
    },
  };
}

/** Reads this each time, and counts. */
function tell(texts: readonly string[]) {
  const told = { count: 0 };
  const read = () => {
    told.count += 1;
    return Promise.resolve(texts[told.count - 1] ?? `other ${told.count}`);
  };
  return { told, read };
}

const itself = (text: string) => text;
const rising = Array.from({ length: 40 }, (_, at) => at);

test('without a commit meanwhile one reading is enough', async () => {
  const { told, read } = tell(['a']);
  expect([await readOneMoment(start([7]), read, itself), told.count]).toEqual(['a', 1]);
});

test('a reading that a commit fell into counts if the next one is alike, or is made again', async () => {
  const alike = tell(['a', 'b', 'b']);
  expect([await readOneMoment(start(rising), alike.read, itself), alike.told.count]).toEqual(['b', 3]);
  const quiet = tell(['a', 'b']);
  expect([await readOneMoment(start([1, 2]), quiet.read, itself), quiet.told.count]).toEqual(['b', 2]);
});

test('what never holds still is given up after ten readings', async () => {
  const { told, read } = tell([]);
  expect([await readOneMoment(start(rising), read, itself), told.count]).toEqual([null, 10]);
});

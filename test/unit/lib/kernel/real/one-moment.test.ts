import { expect, test } from '@jest/globals';
import { type NetlinkQuestioner } from '../../../../../lib/kernel/netlink/netlink.ts';
import { renderAttribute } from '../../../../../lib/kernel/netlink/netlink-messages.ts';
import { readOneMoment } from '../../../../../lib/kernel/real/one-moment.ts';

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
      const data = Buffer.concat([Buffer.alloc(4), renderAttribute(NFTA_GEN_ID, id)]);
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

import { describe, test, expect } from '@jest/globals';
import { dumpAddresses } from '../../../../lib/kernel/addresses.ts';
import {
  type NetlinkMessage,
  type NetlinkClient,
  renderAttribute,
  renderMessage,
} from '../../../../lib/kernel/netlink.ts';
import { createAddressDigester } from '../../../../lib/kernel/watch.ts';

const tentative = 0x40;
const failed = 0x08;
const permanent = 0x80;
const interrupted = 0x10;

const one = { bytes: [10, 0, 0, 50], index: 2, flags: permanent };

describe("the host's addresses", () => {
  test('are in canonical text, of both families', async () => {
    const client = answering([
      address(one),
      address({ bytes: [0xfd, ...Array.from({ length: 14 }, () => 0), 0x50], index: 3, flags: permanent }),
    ]);
    expect(await dumpAddresses(client)).toEqual([
      { family: 'ipv4', address: '10.0.0.50', deviceIndex: 2, prefixLength: 0, isSource: true },
      { family: 'ipv6', address: 'fd00::50', deviceIndex: 3, prefixLength: 0, isSource: true },
    ]);
  });

  test.each([tentative, failed])('that cannot be used yet or ever (flag %i) are left out', async (flags) => {
    expect(await dumpAddresses(answering([address({ ...one, flags })]))).toEqual([]);
  });

  test('are read again when they changed while they were read', async () => {
    const message = address(one);
    const client = answering([{ ...message, flags: interrupted }], [message, message]);
    expect(await dumpAddresses(client)).toHaveLength(2);
  });

  test('that never stop changing are those that either of the last two readings has, each once', async () => {
    const make = (last: number) => ({ ...address({ ...one, bytes: [10, 0, 0, last] }), flags: interrupted });
    const [first, second, third] = [make(1), make(2), make(3)];
    const client = answering([first, third], [second, third]);
    const texts = (await dumpAddresses(client)).map(({ address: text }) => text).toSorted();
    expect(texts).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
  });

  test('of which one is cut short are a failure', async () => {
    const message = address(one);
    const client = answering([{ ...message, data: message.data.subarray(0, 6) }]);
    await expect(dumpAddresses(client)).rejects.toMatchObject({ code: 'NETLINK_FAILED' });
  });
});

describe('the digest of addresses', () => {
  const digest = (...messages: readonly NetlinkMessage[]) => createAddressDigester()(answering(messages));

  test.each([
    { what: 'an address', other: { ...one, bytes: [10, 0, 0, 51] } },
    { what: 'an interface', other: { ...one, index: 3 } },
    { what: 'whether an address can be used', other: { ...one, flags: permanent | tentative } },
  ])('changes with $what', async ({ other }) => {
    expect(await digest(address(other))).not.toEqual(await digest(address(one)));
    expect(await digest(address(one), address(other))).not.toEqual(await digest(address(one)));
  });

  test('does not change with the time that an address has left', async () => {
    const message = address(one);
    const aged = { ...message, data: Buffer.concat([message.data, renderAttribute(6, Buffer.from('0123'))]) };
    expect(await digest(aged)).toEqual(await digest(message));
  });

  test('is that of each reading, whatever it was before', async () => {
    const other = address({ ...one, index: 3 });
    const read = createAddressDigester();
    const client = answering([address(one)], [address(one)], [other], [address(one)]);
    const [first, same, second, third] = await readInTurn(4, () => read(client));
    expect([same, third]).toEqual([first, first]);
    expect(second).toEqual(await digest(other));
  });
});

async function readInTurn<T>(times: number, read: () => Promise<T>): Promise<T[]> {
  const seen: T[] = [];
  while (seen.length < times) seen.push(await read());
  return seen;
}

/** Gives the answers in turn, and the last one for ever. */
function answering(...answers: readonly (readonly NetlinkMessage[])[]): NetlinkClient {
  let asked = 0;
  return {
    request: ({ read }) => {
      asked += 1;
      const answer = answers[Math.min(asked, answers.length) - 1] ?? [];
      for (const { type, data } of answer) read?.(renderMessage({ type, payload: data, flags: 0 }, 0), 0);
      return Promise.resolve(answer);
    },
    commit: () => Promise.resolve(),
    close: () => undefined,
  };
}

/** RTM_NEWADDR with IFA_ADDRESS and IFA_FLAGS. */
function address(of: { bytes: readonly number[]; index: number; flags: number }): NetlinkMessage {
  const header = Buffer.alloc(8);
  header.writeUInt32LE(of.index, 4);
  const flags = Buffer.alloc(4);
  flags.writeUInt32LE(of.flags);
  const data = Buffer.concat([header, renderAttribute(1, Buffer.from(of.bytes)), renderAttribute(8, flags)]);
  return { type: 20, flags: 0, sequence: 1, data };
}

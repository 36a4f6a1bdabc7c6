import {
  renderAttribute as field,
  type NetlinkClient,
  type NetlinkRequest,
} from '../../../../lib/kernel/netlink.ts';
import { toAddressBytes } from '../../../../lib/net.ts';
import {
  type ConnectionChoice,
  visitConnections,
  forgetConnection,
} from '../../../../lib/kernel/conntrack.ts';
import type { SeenFlow } from '../../../../lib/kernel/port.ts';
import { test, expect } from '@jest/globals';

const dstNat = 1 << 5;

const number = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const port = (value: number) => number(value).subarray(2);

/** CTA_TUPLE_IP and CTA_TUPLE_PROTO. */
function tuple(protocol: number, [from, fromPort]: [string, number], [to, toPort]: [string, number]): Buffer {
  const [source, destination] = from.includes(':') ? [3, 4] : [1, 2];
  const addresses = [field(source, toAddressBytes(from)), field(destination, toAddressBytes(to))];
  const ports = [field(1, Buffer.from([protocol])), field(2, port(fromPort)), field(3, port(toPort))];
  return Buffer.concat([field(1, Buffer.concat(addresses), true), field(2, Buffer.concat(ports), true)]);
}

/** What the kernel lists of one connection. */
function message(family: number, original: Buffer, reply: Buffer, bits = dstNat) {
  const attributes = [
    field(1, original, true),
    field(2, reply, true),
    field(3, number(bits)),
    field(12, number(4711)),
  ];
  return {
    ...{ type: 0x0100, flags: 0, sequence: 1 },
    data: Buffer.concat([Buffer.from([family, 0, 0, 0]), ...attributes]),
  };
}

const asked = tuple(6, ['10.0.0.1', 40_000], ['10.0.9.10', 80]);
const answered = tuple(6, ['10.244.1.2', 8080], ['10.0.0.1', 40_000]);

function answering(messages: Awaited<ReturnType<NetlinkClient['request']>>) {
  const requests: NetlinkRequest[] = [];
  const client = {
    request: (request: NetlinkRequest) => {
      requests.push(request);
      if (request.visit === undefined) return Promise.resolve(messages);
      for (const { data } of messages) {
        // It stands in a datagram, between others.
        const datagram = Buffer.concat([Buffer.alloc(16, 1), data, Buffer.alloc(16, 1)]);
        request.visit(datagram, 16, 16 + data.length);
        // What is kept of a datagram must not hold it: the socket may use it again.
        datagram.fill(0);
      }
      return Promise.resolve([]);
    },
    close: () => undefined,
  };
  return { client, requests };
}

async function listAll(client: Pick<NetlinkClient, 'request'>, choice: ConnectionChoice = 'translated') {
  const shown: (SeenFlow & { readonly key: Buffer })[] = [];
  await visitConnections(client, choice, (flow, renderKey) => {
    shown.push({ ...flow, key: renderKey() });
  });
  return shown;
}

test('connections of both families that were sent elsewhere are listed, and no others', async () => {
  const six = [
    tuple(17, ['fd00::1', 40_000], ['fd00:9::a', 53]),
    tuple(17, ['fd00:244::2', 5353], ['fd00::1', 40_000]),
  ] as const;
  const { client } = answering([
    message(2, asked, answered),
    message(2, asked, answered, 0),
    message(2, tuple(1, ['10.0.0.1', 0], ['10.0.9.10', 0]), answered),
    message(10, ...six),
    { ...message(2, asked, answered), data: message(2, asked, answered).data.subarray(0, 30) },
  ]);
  expect(await listAll(client)).toEqual([
    {
      ...{ protocol: 'tcp', vip: { family: 'ipv4', address: '10.0.9.10', port: 80 } },
      ...{ backend: { family: 'ipv4', address: '10.244.1.2', port: 8080 }, isAnswered: false },
      ...{ isEstablished: false, idleMs: 0, isOpen: true, key: expect.any(Buffer) },
    },
    {
      ...{ protocol: 'udp', vip: { family: 'ipv6', address: 'fd00:9::a', port: 53 } },
      ...{ backend: { family: 'ipv6', address: 'fd00:244::2', port: 5353 }, isAnswered: false },
      ...{ isEstablished: false, idleMs: 0, isOpen: true, key: expect.any(Buffer) },
    },
  ]);
  expect(await listAll(client, 'all')).toHaveLength(3);
});

test.each([
  ['ESTABLISHED', 3, 0x22, [{ isOpen: true, isEstablished: true, isAnswered: true }]],
  ['SYN_SENT', 1, 0x20, [{ isOpen: true, isEstablished: false, isAnswered: false }]],
  ['FIN_WAIT', 4, 0x22, [{ isOpen: true, isEstablished: false, isAnswered: true }]],
  ['CLOSE_WAIT', 5, 0x22, [{ isOpen: true, isEstablished: false, isAnswered: true }]],
  ['LAST_ACK', 6, 0x22, [{ isOpen: false, isEstablished: false, isAnswered: true }]],
  // A SYN follows such an entry, as long as nobody answers it.
  ['CLOSE', 8, 0x22, [{ isOpen: false, isEstablished: false, isAnswered: false }]],
  // A SYN replaces such an entry: nobody has to know of it.
  ['TIME_WAIT', 7, 0x22, []],
])('a connection in state %s (%s) with status %s is shown as %j', async (_, state, bits, shown) => {
  const whole = message(2, asked, answered, bits);
  const info = field(4, field(1, field(1, Buffer.from([state])), true), true);
  const { client } = answering([{ ...whole, data: Buffer.concat([whole.data, info]) }]);
  expect(await listAll(client)).toMatchObject(shown);
});

test('of a virtual IP the kernel is asked for its own, and one that tells of others too is not believed', async () => {
  const vip = { family: 'ipv4', address: '10.0.9.10', port: 80 } as const;
  const elsewhere = tuple(6, ['10.0.0.1', 40_000], ['10.0.9.11', 80]);
  const ofPort = tuple(6, ['10.0.0.1', 40_000], ['10.0.9.10', 81]);
  const ofUdp = tuple(17, ['10.0.0.1', 40_000], ['10.0.9.10', 80]);
  const { client, requests } = answering(
    [asked, elsewhere, ofPort, ofUdp].map((one) => message(2, one, answered, 0)),
  );
  expect(await listAll(client, vip)).toMatchObject([{ vip, protocol: 'tcp' }]);
  await listAll(client, { ...vip, isHalfOpen: true });
  // Destination, protocol and destination port, by the filter of Linux 5.8.
  const destination = Buffer.concat([
    field(1, field(2, toAddressBytes(vip.address)), true),
    field(2, Buffer.concat([field(1, Buffer.from([6])), field(3, port(vip.port))]), true),
  ]);
  const ofVip = Buffer.concat([
    Buffer.from([2, 0, 0, 0]),
    field(1, destination, true),
    field(25, field(1, Buffer.from([0b10_1010, 0, 0, 0])), true),
  ]);
  // 50,000 that have ended take the kernel a second to hand over, and ten that wait for an answer a few milliseconds: those without SEEN_REPLY.
  const unanswered = [field(3, number(0)), field(26, number(0b10))];
  expect(requests.map(({ payload }) => payload)).toEqual([ofVip, Buffer.concat([ofVip, ...unanswered])]);
});

test('a connection is forgotten by its answers and id: without them the kernel would forget all', async () => {
  const { client, requests } = answering([message(2, asked, answered)]);
  const [connection] = await listAll(client);
  if (connection === undefined) throw new Error('there is one');
  expect(await forgetConnection(client, connection.key)).toBe(true);
  expect(requests[1]).toMatchObject({ type: 0x0102, isDump: false, isOrder: true });
  expect(requests[1]?.payload).toEqual(
    Buffer.concat([Buffer.from([2, 0, 0, 0]), field(2, answered, true), field(12, number(4711))]),
  );
});

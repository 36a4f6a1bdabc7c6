import { jest, test, expect } from '@jest/globals';
import {
  type NetlinkMessage,
  type NetlinkClient,
  parseMessages,
  parseAttributes,
  renderAttribute,
  renderMessage,
  visitWith,
  readGeneration,
} from '../../../../lib/kernel/netlink.ts';
import { fuzz, attemptLater, testTarget } from '../engine/run.ts';
import { mutateBytes } from '../engine/mutate.ts';
import { insist } from '../engine/properties.ts';
import { dumpLocalRoutes } from '../../../../lib/kernel/forwarding.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { dumpLinks, dumpAddresses } from '../../../../lib/kernel/addresses.ts';
import { parseAddress, toAddressBytes } from '../../../../lib/net.ts';
import { visitConnections } from '../../../../lib/kernel/conntrack.ts';

jest.setTimeout(3_600_000);

const newLink = 16;
const newAddress = 20;
const newRoute = 24;
const newGeneration = 0x0a0f;

/** Attributes by their kinds, in the order of these. */
type Attributes = Readonly<Record<number, Buffer>>;

const pack = (attributes: Attributes): Buffer =>
  Buffer.concat(Object.entries(attributes).map(([kind, value]) => renderAttribute(Number(kind), value)));

/** A message as the kernel lays it out. */
function frame(type: number, head: Buffer, attributes: Attributes = {}): Buffer {
  return renderMessage({ type, payload: Buffer.concat([head, pack(attributes)]), flags: 0 }, 1);
}

const addressHead = Buffer.from([2, 32, 0x80, 0, 2, 0, 0, 0]);
const linkHead = Buffer.from([0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
const flags = Buffer.from([0x80, 0, 0, 0]);
/** A route to an own address, of ours and of the kernel; and the one to everywhere, as its answer. */
const routeHead = (table: number, protocol: number, type: number) =>
  Buffer.from([2, 32, 0, 0, table, protocol, 254, type, 0, 0, 0, 0]);
const device = Buffer.from([2, 0, 0, 0]);
const [virtualIp, own] = [Buffer.from([10, 0, 0, 50]), Buffer.from([10, 0, 0, 11])];
const link = frame(newLink, linkHead, { 3: Buffer.from('eth0\0') });
const routes = Buffer.concat([
  frame(newAddress, addressHead, { 2: virtualIp }),
  frame(newRoute, routeHead(255, 118, 2), { 1: virtualIp, 4: device, 7: own }),
  frame(newRoute, routeHead(255, 2, 2), { 1: virtualIp, 4: device, 7: virtualIp }),
  link,
]);
const cutShort = Buffer.concat([routes, frame(newRoute, Buffer.from([2, 32, 0, 0]))]);
const everywhere = frame(newRoute, routeHead(254, 0, 1), {
  ...{ 1: Buffer.from([192, 0, 2, 1]), 4: device, 7: own },
});
const corpus: readonly Buffer[] = [
  Buffer.concat([
    frame(newAddress, addressHead, { 1: virtualIp, 2: virtualIp, 8: flags }),
    frame(newAddress, addressHead, { 1: Buffer.from(`fd${'0'.repeat(28)}50`, 'hex'), 8: flags }),
    frame(3, Buffer.alloc(4)),
  ]),
  Buffer.concat([link, frame(newLink, linkHead, { 3: Buffer.from('br-lan\0') })]),
  frame(newGeneration, Buffer.alloc(4), {
    ...{ 1: Buffer.from([0, 0, 0, 7]), 2: Buffer.alloc(4), 3: Buffer.from('nft\0') },
  }),
  frame(2, Buffer.from('ffffffff', 'hex')),
];

/** A kernel that answers to lists with the messages of one datagram, and to all else with those of another. */
const answering = (list: readonly NetlinkMessage[], one = list): NetlinkClient => ({
  request: ({ isDump }) => Promise.resolve(isDump ? list : one),
  commit: () => Promise.resolve(),
  close: () => undefined,
});

testTarget('datagrams of any bytes are cut into messages and attributes that are within them', {
  name: 'netlink datagrams',
  cases: 100_000,
  make: (random) => mutateBytes(random, corpus),
  check: (datagram) => {
    const messages = parseMessages(datagram);
    insist(messages.length <= datagram.length / 16, 'no more messages than there is room for');
    const bytes = messages.reduce((sum, { data }) => sum + data.length, 0);
    insist(bytes <= datagram.length, 'no more bytes than there are');
    for (const { data } of messages) {
      const attributes = [...parseAttributes(data, 8).values()];
      insist(
        attributes.every(({ length }) => length <= data.length),
        'attributes are within the message',
      );
    }
  },
});

test('routes of any bytes: own addresses with a source and an interface of the same answer, or a coded error', async () => {
  let found = 0;
  await fuzz({
    name: 'netlink routes',
    cases: 40_000,
    make: (random) => ({
      list: parseMessages(mutateBytes(random, [routes, cutShort])),
      usual: parseMessages(mutateBytes(random, [everywhere])),
    }),
    check: async ({ list, usual }) => {
      const client = answering(list, usual);
      const seen = await attemptLater(() => dumpLocalRoutes(client));
      if (seen instanceof VipnatError) return;
      const names = await dumpLinks(client);
      for (const { address, device: name, source } of seen.routes) {
        found += 1;
        insistOnIpv4(address, list);
        if (source !== null) insistOnIpv4(source, list);
        insist([...names.values()].includes(name), `no interface: ${name}`);
      }
      if (seen.usualSource !== null) insistOnIpv4(seen.usualSource, usual);
    },
  });
  expect(found).toBeGreaterThan(0);
});

/** Whether an address is one, and some message has it. */
function insistOnIpv4(text: string, messages: readonly NetlinkMessage[]): void {
  insist(parseAddress(text)?.family === 'ipv4' && parseAddress(text)?.text === text, `no address: ${text}`);
  const bytes = Buffer.from(text.split('.').map(Number));
  insist(
    messages.some(({ data }) => data.includes(bytes)),
    'in the answer',
  );
}

/** Of TCP and of both families, each sent elsewhere. */
const connections = [
  { family: 2, ip: [1, 2], hosts: ['0a4d0065', '0a000032', '0a4d000b'] },
  {
    ...{ family: 10, ip: [3, 4] },
    hosts: ['65', '50', '11'].map((host) => `fd00${'0'.repeat(26)}${host}`),
  },
].map(({ family, ip: [from = 0, to = 0], hosts: [client = '', vip = '', backend = ''] }) => {
  const [clientPort, port] = [Buffer.from('9c40', 'hex'), Buffer.from('192b', 'hex')];
  const tuple = (source: string, destination: string, ports: readonly [Buffer, Buffer]) =>
    pack({
      1: pack({ [from]: Buffer.from(source, 'hex'), [to]: Buffer.from(destination, 'hex') }),
      2: pack({ 1: Buffer.from([6]), 2: ports[0], 3: ports[1] }),
    });
  return frame(0x0100, Buffer.from([family, 0, 0, 0]), {
    1: tuple(client, vip, [clientPort, port]),
    2: tuple(backend, client, [port, clientPort]),
    3: Buffer.from([0, 0, 0, 0x2a]),
    4: pack({ 1: pack({ 1: Buffer.from([3]) }) }),
    12: Buffer.from([0, 0, 0, 7]),
  });
});

test('connections of any bytes: between endpoints that are in them, each with a key that names its tuple', async () => {
  let found = 0;
  await fuzz({
    name: 'netlink connections',
    cases: 40_000,
    make: (random) => mutateBytes(random, connections),
    check: async (bytes) => {
      const client: Pick<NetlinkClient, 'request'> = {
        request: ({ visit }) =>
          Promise.resolve(visit === undefined ? [] : visitWith(visit)(bytes, bytes.readUInt32LE(8))),
      };
      if (bytes.length < 12) return;
      await visitConnections(client, 'all', ({ vip, backend }, renderKey, readClient) => {
        found += 1;
        for (const { address, port } of [vip, backend]) {
          insist(parseAddress(address)?.text === address, `no address: ${address}`);
          insist(bytes.includes(toAddressBytes(address)), 'in the answer');
          insist(port >= 0 && port <= 0xffff, 'a port');
        }
        const one = readClient();
        insist(one === null || parseAddress(one)?.text === one, 'a client, or none');
        // Without it the kernel would forget all connections.
        insist(parseAttributes(renderKey(), 4).has(2), 'a tuple');
      });
    },
  });
  expect(found).toBeGreaterThan(0);
});

testTarget('answers of any bytes: addresses, names and a generation, or a coded error', {
  name: 'netlink answers',
  cases: 40_000,
  make: (random) => parseMessages(mutateBytes(random, corpus)),
  check: async (messages) => {
    const client = answering(messages);
    const addresses = await attemptLater(() => dumpAddresses(client));
    if (!(addresses instanceof VipnatError)) {
      const bytes = Buffer.concat(messages.map(({ data }) => data));
      for (const { address, family, deviceIndex } of addresses) {
        const parsed = parseAddress(address);
        insist(parsed?.family === family && parsed.text === address, `no address: ${address}`);
        insist(Number.isInteger(deviceIndex), 'an index');
        if (family === 'ipv4')
          insist(bytes.includes(Buffer.from(address.split('.').map(Number))), 'in the answer');
      }
    }
    const names = await attemptLater(() => dumpLinks(client));
    if (!(names instanceof VipnatError))
      for (const name of names.values()) insist(name.length <= 64, 'a name');
    const generation = await attemptLater(() => readGeneration(client));
    insist(generation instanceof VipnatError || Number.isInteger(generation), 'a number');
  },
});

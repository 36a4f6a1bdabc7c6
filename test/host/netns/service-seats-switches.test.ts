import { expect, jest, test } from '@jest/globals';
import { limitMs } from '../../support/host/vipnat.ts';
import {
  makeNode,
  makePool,
  makeReport,
  makeService,
  makeVirtualIp,
  publish,
} from '../../support/fakes/service-objects.ts';
import { decide, tell } from '../../support/fakes/service-steps.ts';
import { makeSeat } from '../../support/fakes/seat-objects.ts';
import { isFull } from '../../support/jest/extent.ts';
import { sleep, waitUntil } from '../../support/jest/waiting.ts';
import { give, useSeatNetwork } from './seat-network.ts';
import type { SeatNode } from './seat-node.ts';

jest.setTimeout(2 * limitMs);

const network = useSeatNetwork();
const address = '10.77.0.60';

/** Two minutes of a node's clock, in which it asks three times who else has the address. */
const speed = 8;
const proofMs = 120_000 / speed;

type Break = (nodes: readonly SeatNode[], holder: SeatNode) => Promise<() => Promise<unknown>>;
const onAll = (nodes: readonly SeatNode[], script: string) =>
  Promise.all(nodes.map((node) => node.shell(script)));
const breaks: Readonly<Record<string, Break>> = {
  'VRRP that does not pass': async (nodes) => {
    await onAll(nodes, 'iptables-nft -A INPUT -p vrrp -j DROP');
    return () => onAll(nodes, 'iptables-nft -F INPUT');
  },
  'a holder that is stopped': (_, holder) => {
    holder.signalKeepalived('SIGSTOP');
    return Promise.resolve(() => {
      holder.signalKeepalived('SIGCONT');
      return Promise.resolve();
    });
  },
};

const all = [0, 1, 2, 8].flatMap((ignore) =>
  [0, 1].flatMap((filter) => Object.keys(breaks).map((name) => [ignore, filter, name] as const)),
);
const some = all.filter(
  ([ignore, filter], at) =>
    filter === 1 && ((ignore === 2 && at % 2 === 0) || (ignore === 1 && at % 2 === 1)),
);

test.each(isFull ? all : some)(
  'with arp_ignore=%d, arp_filter=%d and %s an address stays, and the API says that several nodes hold it',
  async (ignore, filter, name) => {
    const { nodes } = network;
    await onAll(
      nodes,
      `for c in all eth0; do echo ${ignore} >/proc/sys/net/ipv4/conf/$c/arp_ignore; echo ${filter} >/proc/sys/net/ipv4/conf/$c/arp_filter; done`,
    );
    for (const node of nodes) node.speed = speed;
    await network.start(give(address));
    const mend = await breaks[name]?.(nodes, await network.findHolder(address));
    const count = async () => (await network.listHolders(address)).length;
    await waitUntil(async () => (await count()) > 1, 'nobody else takes it');
    const endsAt = performance.now() + proofMs;
    while (performance.now() < endsAt) {
      expect(await count()).toBeGreaterThan(1);
      await sleep(300);
    }
    expect(judge(nodes)).toContain('Announced False SeveralSeatHolders');
    expect(judge(nodes)).not.toContain('AddressInUse True');
    await mend?.();
    await network.waitForOneHolder(address);
  },
);

/** What the controller does with what all nodes have said last. */
function judge(nodes: readonly SeatNode[]): string {
  const names = nodes.map(({ name }) => name);
  const toPool = (seats: readonly string[]) => seats.map((seat) => seat.replace('default', 'pool'));
  const status = { seats: [makeSeat(0, address, names)] };
  const step = decide(
    {
      services: [makeService('apps/a', { status: publish(address) })],
      nodes: names.map((one) => makeNode(one)),
      pools: [makePool('pool', { addresses: [address], seats: 1 }, { status })],
      virtualIps: [makeVirtualIp(address, ['apps/a'])],
      reports: nodes.map(({ name, held, inUse }) => makeReport(name, 20, { seats: toPool(held), inUse })),
    },
    { kind: 'VirtualIP', key: address },
  );
  return tell(step);
}

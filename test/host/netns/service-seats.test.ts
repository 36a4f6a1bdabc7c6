import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { listAddresses } from '../../../lib/keepalived/find.ts';
import { isFull } from '../../support/jest/extent.ts';
import { makePool } from '../../support/fakes/seat-objects.ts';
import { limitMs, sleep, waitUntil } from '../../support/host/vipnat.ts';
import { firstAnchors, give, pool, seats, SeatNetwork } from './seat-network.ts';

let network: SeatNetwork;
beforeEach(async () => {
  network = await SeatNetwork.create();
}, limitMs);
afterEach(async () => {
  await network.close();
}, limitMs);

const say = (text: string) => process.stderr.write(`service-seats.test.ts: ${text}\n`);

test(
  'four seats that nobody uses are spread evenly, whichever node came first, and then stay where they are',
  async () => {
    await network.start([]);
    const [first, second, third] = network.nodes;
    expect([first?.held, second?.held, third?.held]).toEqual([
      ['default/0', 'default/3'],
      ['default/1'],
      ['default/2'],
    ]);
    const virtualIps = give('10.77.0.60', 'fd77::60');
    network.update({ pools: [pool], virtualIps, version: '7' });
    await waitUntil(
      () => Promise.resolve(first?.announced === '7'),
      () => `m1 does not say that it has the addresses: ${network.describe()}`,
    );
    expect(await first?.listAddresses()).toEqual(
      expect.arrayContaining(['10.77.0.50', '10.77.0.60', 'fd77::50', 'fd77::60']),
    );
    first?.order({ isServing: false });
    await waitUntil(
      async () => (await first?.listAddresses())?.length === 0,
      () => `m1 keeps addresses: ${network.describe()}`,
    );
    await network.waitForOneHolder(...firstAnchors, '10.77.0.60');
    first?.order({ isServing: true });
    await waitUntil(
      async () => (await network.listHolders('10.77.0.53')).join() === 'm1',
      () => `the seat that nobody uses does not come back: ${network.describe()}`,
    );
    expect((await network.listHolders('10.77.0.60')).join()).not.toBe('m1');
  },
  2 * limitMs,
);

if (isFull)
  test(
    'addresses come and go without a transition of any seat, also where one node has heard of one more',
    async () => {
      await network.start(give('10.77.0.60', 'fd77::60'));
      const before = network.countTransitions();
      network.update({ pools: [pool], virtualIps: give('10.77.0.60', 'fd77::60', '10.77.0.61') });
      await network.waitForOneHolder('10.77.0.61');
      network.update({ pools: [pool], virtualIps: give('10.77.0.61') });
      await waitUntil(
        async () =>
          (await network.listHolders('10.77.0.60')).length +
            (await network.listHolders('fd77::60')).length ===
          0,
        () => `10.77.0.60 does not leave: ${network.describe()}`,
      );
      const other = network.nodes.find(({ held }) => !held.includes('default/0'));
      other?.order({ input: { pools: [pool], virtualIps: give('10.77.0.61', '10.77.0.62') } });
      for (let look = 0; look < 10; look += 1) {
        await sleep(300);
        await network.waitForOneHolder(...firstAnchors);
      }
      expect(listAddresses(readFileSync(other?.locate('keepalived.conf') ?? '', 'utf8'))).toContain(
        '10.77.0.62',
      );
      expect(network.countTransitions()).toEqual(before);
    },
    2 * limitMs,
  );

test(
  'a node that can serve no way gives all its seats up, and takes none',
  async () => {
    await network.start(give('10.77.0.60', 'fd77::60'));
    const holder = await network.findHolder('10.77.0.50');
    holder.order({ isServing: false });
    await waitUntil(
      async () => (await holder.listAddresses()).length === 0,
      () => `${holder.name} keeps addresses: ${network.describe()}`,
    );
    await network.waitForOneHolder(...firstAnchors, '10.77.0.60');
    await waitUntil(
      () => Promise.resolve(holder.held.length === 0),
      () => `${holder.name} says that it holds ${holder.held.join()}`,
    );
  },
  2 * limitMs,
);

test(
  'a node that is left out of a seat hands it on',
  async () => {
    await network.start(give('10.77.0.60', 'fd77::60'));
    const holder = await network.findHolder('10.77.0.50');
    const others = seats.map((seat) =>
      seat.index === 0 ? { ...seat, nodes: seat.nodes.filter((name) => name !== holder.name) } : seat,
    );
    const startedAt = performance.now();
    network.update({ pools: [makePool('default', others)], virtualIps: give('10.77.0.60') });
    await waitUntil(
      async () => (await network.listHolders('10.77.0.50')).some((name) => name !== holder.name),
      () => `${holder.name} keeps its seat: ${network.describe()}`,
    );
    say(`a seat was handed on after ${Math.round(performance.now() - startedAt)} ms`);
    await network.waitForOneHolder(...firstAnchors, '10.77.0.60');
    expect(await network.listHolders('10.77.0.53')).toEqual([holder.name]);
  },
  2 * limitMs,
);

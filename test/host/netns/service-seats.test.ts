import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { listAddresses } from '../../../lib/keepalived/find.ts';
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
  'four seats have one holder each, which has all addresses of the seat, in both families, and says so',
  async () => {
    await network.start(give('10.77.0.60', 'fd77::60'));
    await network.waitForOneHolder('10.77.0.60', 'fd77::60', 'fd77::50');
    const holder = await network.findHolder('10.77.0.50');
    expect(await holder.listAddresses()).toEqual(
      expect.arrayContaining(['10.77.0.60', 'fd77::50', 'fd77::60']),
    );
    await waitUntil(
      () => Promise.resolve(network.nodes.flatMap(({ held }) => held).length === seats.length),
      () => `not all seats are told: ${network.describe()}`,
    );
    expect(network.nodes.flatMap(({ held }) => held).sort()).toEqual(
      seats.map(({ index }) => `default/${index}`),
    );
    expect(holder.held).toContain('default/0');
    say(`seats by node: ${network.nodes.map(({ held }) => held.length).join(', ')}`);
  },
  2 * limitMs,
);

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
        (await network.listHolders('10.77.0.60')).length + (await network.listHolders('fd77::60')).length ===
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
  'a node that is left out of a seat hands it on, and keeps the others',
  async () => {
    await network.start(give('10.77.0.60', 'fd77::60'));
    const holder = await network.findHolder('10.77.0.50');
    const others = seats.map((seat) =>
      seat.index === 0 ? { ...seat, nodes: seat.nodes.filter((name) => name !== holder.name) } : seat,
    );
    const keptBefore = holder.held.filter((seat) => seat !== 'default/0');
    const startedAt = performance.now();
    network.update({ pools: [makePool('default', others)], virtualIps: give('10.77.0.60') });
    await waitUntil(
      async () => (await network.listHolders('10.77.0.50')).some((name) => name !== holder.name),
      () => `${holder.name} keeps its seat: ${network.describe()}`,
    );
    say(`a seat was handed on after ${Math.round(performance.now() - startedAt)} ms`);
    await network.waitForOneHolder(...firstAnchors, '10.77.0.60');
    expect(holder.held.filter((seat) => seat !== 'default/0')).toEqual(keptBefore);
  },
  2 * limitMs,
);

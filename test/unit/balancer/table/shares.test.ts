import { useBalancerWorld } from '../../../support/api/balancer-world.ts';
import { makeLoadBalancer } from '../../../support/kube-api/service-objects.ts';
import type { BalancedFlow } from '../../../../lib/kernel/port.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import type { PortBalance } from '../../../../balancer/services/backends.ts';
import { makePortBalance } from '../../../support/fakes/port-balance.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { ConnectionShares } from '../../../../balancer/table/shares.ts';
import { toFlows } from '../../../../balancer/table/stale-flows.ts';
import { describeFlow } from '../../../../lib/kernel/conntrack.ts';
import { describe, test, expect } from '@jest/globals';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { renderPort } from '../../../../balancer/table/render.ts';
import { emptyTable } from '../../../../lib/nft/table.ts';

const pods = ['10.244.1.2', '10.244.2.2', '10.244.3.2'].map((address) => ({ address, port: 8080 }));

const makeLc = (more: Partial<PortBalance> = {}) => makePortBalance(pods, { method: 'lc', ...more });

function start() {
  const clock = new FakeClock();
  const changed: (readonly string[])[] = [];
  const shares = new ConnectionShares(clock, (services) => changed.push(services));
  return { clock, shares, changed };
}

/** Ports that timelines name, all of one address. */
const nameToBalance = {
  web: makeLc(),
  weighted: makeLc({ backends: pods.map((pod, at) => ({ ...pod, weight: at === 0 ? 2 : 1 })) }),
  two: makeLc({ backends: pods.slice(0, 2) }),
  one: makeLc({ backends: pods.slice(0, 1) }),
  away: makeLc({ isHere: false, port: 81 }),
  kept: makeLc({ affinitySeconds: 60 }),
  random: makeLc({ method: 'random' }),
  next: makeLc({ service: 'default/next' }),
};
const toBalance = (name: string) => nameToBalance[name as keyof typeof nameToBalance];

function createSteps(): Steps {
  const { clock, shares, changed } = start();
  /** `web 150 150 0`: a walk that sees so many connections of each pod. */
  const count = (text: string, isOpen = true, meanwhile: () => void = () => undefined) => {
    const [name = '', ...counts] = text.split(' ');
    const balance = toBalance(name);
    const tally = shares.begin();
    for (const [at, flow] of toFlows(balance, balance.backends).entries())
      for (let left = Number(counts[at] ?? 0); left > 0; left -= 1)
        tally?.see(describeFlow(flow), { ...flow, isOpen, isAnswered: true, isEstablished: isOpen });
    meanwhile();
    tally?.end();
  };
  const take = (text: string) => {
    const [service = '', ...names] = text.split(' ');
    shares.take(`default/${service}`, names.map(toBalance));
  };
  return {
    /** `take web one away`: the Service has these ports. */
    take,
    wait: (ms) => clock.advance(Number(ms)),
    count,
    countEnded: (text) => {
      count(text, false);
    },
    /** The Service changes before the end of the walk. */
    countMeanwhile: (text) => {
      count(text, true, () => {
        take('web web');
      });
    },
    ...toChecks({
      /** `parts web 1 1 1`: of a port, by its pods. */
      parts: (text) => {
        const [name = '', ...parts] = text.split(' ');
        return [[...(shares.share(toBalance(name)).parts?.values() ?? [])].join(' '), parts.join(' ')];
      },
      of: (ends) => [[...(shares.share(nameToBalance.two).parts?.keys() ?? [])].join(', '), ends],
      /** How many of the slots for kept clients each pod has. */
      slots: (counts) => {
        const { sets } = renderPort(shares.share(nameToBalance.kept), emptyTable);
        const slots = [...(sets.get('slots/default/web/tcp/80/kept')?.elements.values() ?? [])];
        const of = (address: string) => slots.filter((slot) => slot.includes(`/${address}/`)).length;
        return [pods.map(({ address }) => of(address)).join(' '), counts];
      },
      changes: (times) => [changed.length, Number(times)],
      any: (text) => [String(shares.isAny), text],
      begins: (text) => [String(shares.begin() !== null), text],
    }),
  };
}

testSteps(createSteps, {
  'a part is of the weight: twice the weight with twice the connections is as wanted':
    'take web weighted; count weighted 200 100 100; parts weighted 1 1 1; wait 5000; ' +
    'count weighted 100 150 150; parts weighted 1.375 0.625 0.625',
  'shares are also those of clients that keep their pod afterwards':
    'take web kept; count kept 150 150 0; slots 13 12 35',
  'parts change by a tenth at least, but that even ones come as soon as chance explains the counts':
    'take web two; count two 150 50; wait 5000; count two 148 52; changes 1; parts two 0.625 1.375; wait 5000; ' +
    'count two 308 252; parts two 0.925 1.075; wait 5000; count two 281 279; parts two 1 1',
  'connections that have ended, and those of Services with another method, do not count':
    'take web web; countEnded web 100; parts web 1 1 1; take web random; wait 5000; any false; begins false',
  'a Service that changes during a count keeps its parts: half of it was not seen':
    'take web web; count web 150 150 0; parts web 0.625 0.625 1.75; wait 5000; countMeanwhile web 150 150 0; ' +
    'parts web 0.625 0.625 1.75; take web two; of 10.244.1.2 . 8080, 10.244.2.2 . 8080',
  'a port that another Service gets is counted for that one, whichever is told first':
    'take web web; take next next; take web; count next 150 150 0; parts next 0.625 0.625 1.75',
  'a count begins five seconds after the one before, and not where there is no choice':
    'take web one away; any false; begins false; take web web; begins true; wait 4999; begins false; wait 1; begins true',
});

test('after a count a hundred endpoints get other shares, and those of other Services after the next ones', async () => {
  const { clock, shares, changed } = start();
  const balances = Array.from({ length: 80 }, (_, at) =>
    makeLc({ service: `default/web${at}`, addresses: [`10.0.9.${at + 1}`] }),
  );
  for (const balance of balances) shares.take(balance.service, [balance]);
  const flows = balances.flatMap((balance) => toFlows(balance, balance.backends.slice(0, 2)));
  for (let round = 0; round < 3; round += 1) {
    await clock.advance(5000);
    const tally = shares.begin();
    for (const flow of flows)
      for (let left = 150; left > 0; left -= 1)
        tally?.see(describeFlow(flow), { ...flow, isOpen: true, isAnswered: true, isEstablished: true });
    tally?.end();
  }
  expect(changed.map(({ length }) => length)).toEqual([34, 34, 12]);
  expect(new Set(changed.flat()).size).toBe(80);
});

/** The method in the balancer as a whole: an API on a local socket, a kernel in memory, and a clock that stands still. */
const addresses = ['10.244.1.2', '10.244.2.2', '10.244.3.2'] as const;
const slotsOfWeb = 'slots/default/web/tcp/80';

const world = useBalancerWorld(async () => {
  const annotations = { 'vipnat.io/method': 'lc' };
  world().api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }], { annotations }));
  world().list('web', ...addresses);
  open(150, 150, 0);
  await begin();
});

async function begin(): Promise<void> {
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.61[\s\S]*10\.244\.3\.2/);
}

/** From now on, the pods have so many open connections. */
function open(...counts: readonly number[]): void {
  world().connections = addresses.flatMap((address, at) =>
    Array.from({ length: counts[at] ?? 0 }, (): BalancedFlow => ({
      protocol: 'tcp',
      vip: { family: 'ipv4', address: '10.77.0.60', port: 80 },
      backend: { family: 'ipv4', address, port: 8080 },
    })),
  );
}

/** How many slots each pod has. */
async function readSlots(): Promise<string> {
  const [, text = ''] = new RegExp(`map ${slotsOfWeb} \\{([^]*?)\\n\\t\\}`).exec(await world().print()) ?? [];
  return addresses.map((pod) => text.split(` : ${pod} . 8080`).length - 1).join(' ');
}

/** What has been written since `mark`. */
function createWorldSteps(): Steps {
  const { kernel } = world();
  const lists = world().lists;
  let [changes, scripts] = [kernel.changes.length, kernel.scripts.length];
  return {
    pass: (seconds) => world().pass(Number(seconds)),
    open: (counts) => {
      open(...counts.split(' ').map(Number));
    },
    fail: () => (world().walkFailure = new VipnatError('NETLINK_FAILED', 'the kernel is busy')),
    work: () => (world().walkFailure = null),
    stop: () => world().stopBalancer(),
    begin,
    mark: () => ([changes, scripts] = [kernel.changes.length, kernel.scripts.length]),
    /** The Service has no method any more. */
    plain: () => {
      world().api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }]));
    },
    come: async (address) => {
      world().list('web', ...addresses, address);
      await world().until(async () => (await world().print()).includes(address), `${address} is there`);
    },
    until: (slots) => world().until(async () => (await readSlots()) === slots, `slots are ${slots}`),
    slots: async (slots) => {
      expect(await readSlots()).toBe(slots);
    },
    ...toChecks({
      changed: (sets) => [[...new Set(kernel.changes.slice(changes).map(({ set }) => set))].join(' '), sets],
      scripts: (text) => [world().listScripts(scripts, text), []],
      listed: () => [world().lists, lists],
      told: () => [
        world()
          .readLog('info', 'default/web is balanced')
          .map((line) => line.replace('default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints', '')),
        ['', ', more to endpoints with fewer open connections', ''],
      ],
    }),
  };
}

describe('a Service with the method lc', () => {
  testSteps(createWorldSteps, {
    // No rule is changed, and no table listed.
    'gives a pod with few connections more new ones until it has as many, and writes nothing else':
      `pass 10; slots 13 12 35; open 150 150 140; pass 10; slots 20 20 20; changed ${slotsOfWeb}; ` +
      'scripts chain; mark; open 150 160 140; pass 120; changed ; scripts chain; listed; told',
    // A pod that comes gets an even part, whatever the others have.
    'keeps its shares when the balancer starts again, as long as nothing else was counted':
      'pass 10; stop; fail; mark; begin; pass 10; slots 13 12 35; changed ; scripts slots; ' +
      'come 10.244.4.2; slots 13 12 35; work; open 0 0 0; pass 20; slots 20 20 20',
    'keeps its shares while two counts fail, and gives all pods the same after three':
      'pass 10; fail; pass 10; slots 13 12 35; pass 20; slots 20 20 20; work; pass 20; slots 13 12 35',
    'with another method has one slot for each pod, and is not counted any more':
      'pass 10; plain; until 1 1 1; mark; pass 60; changed ',
  });
});

import type { BalancedFlow } from '../../../../lib/kernel/port.ts';
import { test, expect, describe } from '@jest/globals';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import {
  listGoneFlows,
  listEarlyFlows,
  takesNone,
  Drains,
  FlowCleaner,
  createStrayFilter,
} from '../../../../balancer/table/stale-flows.ts';
import { SettledBalances } from '../../../../balancer/table/shares.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import type { PortBalance } from '../../../../balancer/services/backends.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { makePortBalance } from '../../../support/fakes/port-balance.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import type { BalancerKernel } from '../../../../lib/kernel/kernel.ts';
import { sleep } from '../../../../lib/clock.ts';

/** Two pods. */
const [a, b] = [
  { address: '10.244.1.2', port: 8080 },
  { address: '10.244.2.2', port: 8080 },
];

/** One port of the Service at 10.0.9.10. */
function balance(protocol: string, backends: PortBalance['backends'], present = backends) {
  return makePortBalance(backends, { protocol, present });
}

/** A connection of a port of the Service to a pod. */
const flowTo = (backend: typeof a, port = 80): BalancedFlow => ({
  protocol: 'tcp',
  vip: { family: 'ipv4', address: '10.0.9.10', port },
  backend: { family: 'ipv4', ...backend },
});

/** A kernel that has these connections, and takes so long for each walk through its table. */
function start(connections: readonly BalancedFlow[], walkMs = 40) {
  const clock = new FakeClock();
  const logger = createRecordingLogger();
  const host = {
    ...{ connections: [...connections], walks: [] as number[], failure: null as Error | null },
    /** When the address came or went. */
    turnedAt: -Infinity,
  };
  const ended = new Set<BalancedFlow>();
  const formerPorts = new Set<string>();
  const unanswered = new Set<BalancedFlow>();
  const forgetFlows: BalancerKernel['forgetFlows'] = async (choice, isSought) => {
    const isChosen = (flow: BalancedFlow) =>
      isSought({
        ...flow,
        isOpen: !ended.has(flow),
        isAnswered: !unanswered.has(flow),
        isEstablished: !ended.has(flow) && !unanswered.has(flow),
      });
    host.walks.push(clock.now());
    await sleep(clock, walkMs);
    if (host.failure !== null) throw host.failure;
    const chosen = host.connections.filter(
      (flow) => (choice === 'all' || flow.backend.address !== flow.vip.address) && isChosen(flow),
    );
    host.connections = host.connections.filter((flow) => !chosen.includes(flow));
    return chosen.map((flow) => ({ ...flow, count: 2 }));
  };
  const balances = [[balance('TCP', [a]), balance('UDP', [a], [a, b])]];
  const changes: (readonly (number | null)[])[] = [];
  const drains = new Drains({
    clock,
    cut: (flows) => {
      cleaner.add(flows, 'whose drain timeout is over');
    },
    keep: (flows) => {
      cleaner.keep(flows);
    },
    onChange: () => {
      cleaner.count();
      changes.push(drains.list.map(({ connections: count }) => count));
    },
  });
  const ports = { kernel: { forgetFlows }, clock, logger, turnedAt: () => host.turnedAt };
  const cleaner = new FlowCleaner({ ...ports, counters: [drains] }, () =>
    createStrayFilter(balances, formerPorts),
  );
  return {
    ...ports,
    ...{ cleaner, drains, changes, ended, formerPorts, unanswered, host },
    lines: () => logger.lines.map(({ message }) => message),
  };
}

const backendsOf = (flows: readonly BalancedFlow[]) => flows.map(({ backend }) => backend.address);

test.each(['TCP', 'SCTP'])('%s connections go with their endpoint, and not while it ends', (protocol) => {
  const before = [balance(protocol, [a, b])];
  expect(listGoneFlows(before, [balance(protocol, [b], [a, b])])).toEqual([]);
  expect(backendsOf(listGoneFlows(before, [balance(protocol, [b])]))).toEqual([a.address]);
  expect(backendsOf(listGoneFlows(before, []))).toEqual([a.address, b.address]);
});

test('UDP clients are sent elsewhere as soon as their endpoint takes no new ones', () => {
  const gone = listGoneFlows([balance('UDP', [a, b])], [balance('UDP', [b], [a, b])]);
  expect(gone).toEqual([{ ...flowTo(a), protocol: 'udp' }]);
});

test.each([
  { walkMs: 1, share: 0.012 },
  { walkMs: 40, share: 0.012 },
  { walkMs: 500, share: 0.1 },
])('walks of $walkMs ms take $share of the time at most, and find all', async ({ walkMs, share }) => {
  const flows = Array.from({ length: 1200 }, (_, at) => flowTo(b, at + 1));
  const { clock, cleaner, host } = start(flows, walkMs);
  for (const flow of flows) {
    cleaner.add([flow]);
    await clock.advance(50);
  }
  expect((host.walks.length * walkMs) / 60_000).toBeLessThan(share);
  await clock.advance(6000);
  expect(host.connections).toEqual([]);
});

test.each([
  ['is not ready', [balance('TCP', [b], [a, b])], 'open, b'],
  ['is not ready for 199 ms', [balance('TCP', [b], [a, b]), balance('TCP', [a, b])], 'open, begun, b'],
  ['is left to kube-proxy', [{ ...balance('TCP', [], [a, b]), isHere: false }], 'open, begun, b'],
  ['is gone', [balance('TCP', [b])], 'b'],
])('of an endpoint that %s, these connections stay', async (_, steps, expected) => {
  const flows = { open: flowTo(a), begun: flowTo(a), b: flowTo(b) };
  const world = start(Object.values(flows));
  world.unanswered.add(flows.begun);
  const settled = new SettledBalances({
    ...world,
    ...{ onDrains: () => undefined, onShares: () => undefined, listFormerPorts: () => new Set() },
  });
  const settle = (one: PortBalance) => {
    settled.settle(new Map([['default/web', [one]]]), () => false);
  };
  settle(balance('TCP', [a, b]));
  await world.clock.advance(10_000);
  for (const step of steps) {
    settle(step);
    await world.clock.advance(199);
    const isGone = !step.present.includes(a);
    expect(world.host.connections.includes(flows.begun)).toBe(!isGone);
  }
  await world.clock.advance(1000);
  const left = Object.entries(flows).filter(([, flow]) => world.host.connections.includes(flow));
  expect(left.map(([name]) => name).join(', ')).toBe(expected);
  await settled.stop();
});

/** `a`, `b:443`, `udp/vip:53`: a connection to a pod or to nobody, of port 80 of TCP where it says no other. */
function readFlow(text: string): BalancedFlow {
  const [, protocol = 'tcp', name = '', port = '80'] = /^(?:(\w+)\/)?(\w+)(?::(\d+))?$/.exec(text) ?? [];
  const flow = flowTo(name === 'a' ? a : b, Number(port));
  const backend = name === 'vip' ? flow.vip : flow.backend;
  return { ...flow, protocol: protocol as BalancedFlow['protocol'], backend };
}

const readFlows = (texts: string) =>
  texts.split(' ').flatMap((text) => (/\w/.test(text) ? [readFlow(text)] : []));

const web = 'default/web';
/** Port 80 while a drains, with this drain timeout. */
const draining = (drainMs: number | null = null): PortBalance => ({
  ...balance('TCP', [b], [a, b]),
  draining: [a],
  drainMs,
});

function createSteps(walkMs?: number): Steps {
  const { clock, cleaner, drains, changes, ended, formerPorts, host, lines } = start([], walkMs);
  let stopped = Promise.resolve();
  const take = (port: PortBalance) => {
    drains.take(web, [port]);
  };
  return {
    has: (flows) => (host.connections = readFlows(flows)),
    /** Of those that are there. */
    end: (index) => ended.add(host.connections[Number(index)] ?? flowTo(a)),
    former: (ports) => {
      for (const port of ports.split(' ')) formerPorts.add(`10.0.9.10 . ${port.replace(':', ' . ')}`);
    },
    gone: (flows) => {
      cleaner.add(readFlows(flows));
    },
    'gone-none': (flows) => {
      cleaner.add(readFlows(flows), takesNone);
    },
    /** `gone-many b 100 900`: so many of its ports, one after the other. */
    'gone-many': (text) => {
      const [name, from, count] = text.split(' ');
      const pod = name === 'a' ? a : b;
      for (let port = Number(from); port < Number(from) + Number(count); port += 1)
        cleaner.add([flowTo(pod, port)]);
    },
    'is-served': () => {
      cleaner.add(listEarlyFlows([], [balance('UDP', [a])]), 'which was not served yet');
    },
    back: (flows) => {
      cleaner.keep(readFlows(flows));
    },
    sweep: cleaner.sweep.bind(cleaner),
    wait: (ms) => clock.advance(Number(ms)),
    fail: () => (host.failure = new VipnatError('NETLINK_FAILED', 'the kernel is busy')),
    work: () => (host.failure = null),
    stop: () => void (stopped = cleaner.stop()),
    stopped: () => stopped,
    /** The Service has both pods, b alone, or b while a drains. */
    both: () => {
      take(balance('TCP', [a, b]));
    },
    alone: () => {
      take(balance('TCP', [b]));
    },
    drain: (ms) => {
      take(draining(ms === '' ? null : Number(ms)));
    },
    'drain-udp': (ms) => {
      take({ ...draining(Number(ms)), protocol: 'UDP' });
    },
    'drain-no-more': drains.stop.bind(drains),
    ...toChecks({
      left: (flows) => [host.connections, readFlows(flows)],
      walks: (count) => [host.walks.length, Number(count)],
      told: (line) => [lines(), [line]],
      lines: (count) => [lines().length, Number(count)],
      rests: () => [clock.pending, 0],
      /** Since when a drains, or `-`. */
      drains: (since) => [
        drains.list,
        since === '-' ? [] : [{ service: web, endpoint: a.address, since, connections: null }],
      ],
      changes: (json) => [changes, JSON.parse(json)],
    }),
  };
}

const toA = '2 connections of 10.0.9.10:80 to 10.244.1.2:8080';

testSteps(createSteps, {
  // The second time it is no less than all of them.
  'the first endpoint that goes is looked for at once; those that go meanwhile come together':
    'has a b; gone; wait 10000; walks 0; gone a; gone-none a; wait 20; gone-many b 100 900; wait 20; ' +
    `told ${toA}, which is gone, are forgotten; wait 10000; walks 2; left b; rests`,
  'an endpoint that is back before its turn, or during a walk, keeps its connections':
    'has a b; gone a b; back a; wait 20; back b; wait 10000; walks 1; left a b',
  'a failure is told once, and nothing is left out that was to be looked for':
    'has a; fail; gone a; wait 14000; walks 3; told connections stay: the kernel is busy; work; wait 5000; left -; ' +
    'lines 2; fail; gone a; wait 5000; lines 3; stop; stopped',
  'a sweep looks for connections of balanced ports to endpoints that are not there':
    'has a b udp/b b:443 udp/b:443; sweep; wait 40; left a b:443 udp/b:443',
  'a sweep finds connections to ports that were balanced before, and are not now':
    'has a a:443 a:444 udp/a:443; former 6:80 6:443; sweep; wait 40; left a a:444 udp/a:443',
  'a sweep leaves connections to an endpoint that came while it walks':
    'has a b; sweep; wait 20; back b; wait 40; walks 1; left a b; sweep; wait 10000; left a',
  'more endpoints than are kept are found by a sweep': 'has b; gone b; gone-many a 0 250001; wait 40; left -',
  'nothing is begun after the end, and a walk under way is waited for':
    'has a; gone a; wait 20; gone b; stop; wait 10000; stopped; walks 1; rests',
});

describe('UDP clients that sent before their port was served', () => {
  test('are sent to a pod as soon as it is, and no others are looked at', () => {
    const [served, refused] = [balance('UDP', [a]), balance('UDP', [])];
    const udp = readFlow('udp/vip');
    expect(listEarlyFlows([], [served, balance('TCP', [a])])).toEqual([udp]);
    expect(listEarlyFlows([refused], [served])).toEqual([udp]);
    expect([listEarlyFlows([served], [served]), listEarlyFlows([], [refused])]).toEqual([[], []]);
  });

  testSteps(createSteps, {
    'are forgotten then, and no others':
      'has udp/vip vip a; is-served; wait 40; left vip a; ' +
      'told 2 connections of 10.0.9.10:80 to 10.0.9.10:80, which was not served yet, are forgotten',
    'are found by a sweep, and those of ports that nobody balances are not':
      'has udp/vip vip udp/vip:53; former 17:53; sweep; wait 40; left vip udp/vip:53',
  });
});

describe('endpoints that drain', () => {
  testSteps(createSteps, {
    'are said at once; their open connections are counted each five seconds, and only while there are any':
      'has a a a b; end 2; both; wait 10000; walks 0; changes []; drain; drains 2026-01-01T00:00:10.000Z; ' +
      'wait 30000; walks 6; has a; wait 6000; alone; wait 60000; walks 8; changes [[null],[2],[1],[]]; rests',
    // When something else of the Service changes, their time goes on.
    'keep their connections until their time is over, and nothing longer':
      'has a b; drain 30000; wait 20000; drain 30000; wait 9900; left a b; wait 200; left b; ' +
      `told ${toA}, whose drain timeout is over, are forgotten`,
    // The walk that counts ends before; then it rests.
    'that serve again keep their connections, also those that were about to be cut':
      'has a b; drain 1000; wait 500; both; wait 10000; drain 1000; wait 1001; both; wait 20000; left a b',
    'take a time that changes meanwhile, and none at all':
      'has a; drain 31536000000; wait 20000; left a; drain 10000; wait 5000; left -; drain 0; drain-no-more',
    'whose time is over are cut once, however often tables change afterwards':
      'has a; drain 1000; wait 9000; left -; has a; drain 1000; wait 9000; drain 1000; wait 9000; left a; lines 1',
    'of UDP have nothing to wait for': 'drain-udp 1000; wait 10000; walks 0; drains -',
  });

  testSteps(() => createSteps(1500), {
    'cost a hundredth of a processor at most, however long a walk takes':
      'has a; drain; wait 599000; walks 4',
  });
});

import { testHealth, play } from './health/timeline.ts';
import { forEach, play as playAgent } from './timeline.ts';
import { test, expect, describe } from '@jest/globals';
import { Monitored, local, second, third } from './health/monitored.ts';
import { linesOf } from '../../support/agent/running-agent.ts';
import { FakeDrain } from '../../support/fakes/drain.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { VipnatError } from '../../../lib/errors.ts';
import { explainUnkept, HostDrain } from '../../../agent/drain.ts';
import type { Behaviour } from '../../support/fakes/apiserver.ts';
import { type Steps, testSteps, toChecks } from '../steps.ts';

const saysFailOpen = /no other apiserver is ready\. The apiserver stays in use$/;
const saysEnd = /is no longer suspected: it answers again$/;

testHealth({
  // It is asked each second, and the others at once after that.
  'one that says it is not ready gets no new connections from that answer on, and no doubt is told before':
    'm2 failing; m2 draining within 1010; changes m2 draining at once; m2 stale none; suspected nobody;' +
    'm2 says ^/readyz answers 500: \\[-\\]shutdown failed$',
  'one whose etcd alone is gone gets no new connections a few seconds later':
    'm2 ailing; m2 draining after 3001 within 5010; suspected nobody',
  'when etcd goes, and apiservers fail one after the other, nothing changes':
    'm3 ailing; wait 1000; m2 ailing; wait 1000; m1 ailing; wait 121000; m1 healthy; wait 1000; m3 healthy; wait 1000;' +
    'm2 healthy; wait 61000; no change',
  'one that goes on failing when a brown-out is over is draining a few seconds later':
    'all failing; wait 20000; m1 m3 healthy; m2 draining within 5000',
  'one whose etcd does not come back with the others gets none some seconds later':
    'all ailing; wait 20000; m1 m3 healthy; m2 draining after 10001 within 20000',
  'one that is ready again is used after three good answers':
    'm2 failing; m2 draining; m2 healthy; m2 ready after 2001 within 4000',
  'a slow one, which answers after 2 s, is never out': 'm3 slow; wait 600000; no change',
  // They recover one after the other, and who is first does not make the others look bad.
  ...forEach(['ailing', 'slow', 'frozen'], (behaviour) => [
    `a brown-out, in which all are ${behaviour}, changes nothing`,
    `m2 ${behaviour}; wait 1; m3 ${behaviour}; wait 1; m1 ${behaviour}; wait 120000; no change;` +
      (behaviour === 'slow' ? 'suspected nobody;' : 'all doubted;') +
      'm3 healthy; wait 300; m1 healthy; wait 300; m2 healthy; wait 10300; no change; nobody doubted',
  ]),
});

test('a rolling restart with a delay drains, kills and warms one after the other, and never has fewer than two in use', async () => {
  const world = await Monitored.start();
  let fewest = 3;
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 10) {
      await world.clock.advance(10);
      fewest = Math.min(fewest, world.states.filter((state) => state === 'ready').length);
    }
  };
  const steps = [
    ['failing', 20_000, 'draining'],
    ['refusing', 5000, 'dead'],
    ['healthy', 5000, 'ready'],
  ] as const;
  for (const endpoint of [local, second, third]) {
    for (const [behaviour, ms, state] of steps) {
      world.apiservers.set(endpoint, behaviour);
      await pass(ms);
      expect(world.find(endpoint).state).toBe(state);
    }
  }
  expect(fewest).toBe(2);
});

const leaving =
  'all ailing; wait 20000; list m1 m3; m1 m3 healthy; wait 20000; m2 healthy; list m1 m2 m3; wait 20000;';
const saysLeaving = [saysFailOpen, saysEnd, /^10\.0\.0\.12:6443 is ready \(3 good answers\)$/];

test.each([
  ['a brown-out', 'all ailing; wait 120000; all healthy; wait 60000', [saysFailOpen, saysEnd]],
  ['twice that one leaves while it looks bad', leaving.repeat(2), [...saysLeaving, ...saysLeaving]],
])('above debug, these lines tell of %s', async (_, happening, lines) => {
  const { logger } = await play(happening);
  const told = logger.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message);
  expect(told).toEqual(lines.map((line) => expect.stringMatching(line) as unknown));
});

test('when the only one that looks bad leaves, that is the end of it', async () => {
  const { logger } = await play('from m1 m2; m1 m2 ailing; wait 20000; list m1; list m3');
  expect(logger.lines.at(-1)).toMatchObject({
    level: 'info',
    message: `${local} is no longer listed. No other apiserver is suspected`,
  });
});

test('one that died, left and came back is not told to have been down for all that time', async () => {
  const { logger } = await play(
    'm2 refusing; m2 dead; list m1 m3; wait 3600000; m2 healthy; list m1 m2 m3; m2 ready',
  );
  expect(logger.lines.at(-1)?.message).toBe(`${second} is ready (3 good answers)`);
});

test('apiservers that answer nobody without credentials stay in use, and that is told once', async () => {
  // As after each start, until it has read its roles.
  const atStart = 'm1 secretive; wait 5000; m1 healthy; wait 30000';
  const listWarnings = ({ logger }: Monitored) => logger.lines.filter(({ level }) => level === 'warn');
  expect(listWarnings(await play(atStart))).toEqual([]);
  const world = await play(`${atStart}; all secretive; wait 60000; no change`);
  expect(listWarnings(world).map(({ message }) => message)).toEqual([
    expect.stringMatching(/ \(--kubeconfig names credentials\)$/),
  ]);
  expect(world.monitor.view.get(third)?.livenessOnly).toBe('/readyz answers 401');
});

/** A drain check each two seconds, with the connect that is due then. */
const noticed = 'm2 draining within 2300';

testHealth({
  'one whose host is drained gets no new connections, and keeps those that are open':
    `drain m2; ${noticed}; changes m2 draining at once; m2 says ^its host is drained$; m2 is drained; m2 stale none;` +
    'wait 600000; changes m2 draining at once; m2 stale none',
  'one whose host is no longer drained warms up, and then is ready': `drain m2; ${noticed}; wait 60000; undrain m2; m2 warming within 2300; m2 ready after 1900 within 3100; m2 is undrained`,
  'one that comes back while its host is drained is draining, and never ready':
    `drain m2; ${noticed}; m2 refusing; m2 dead; m2 is undrained; wait 60000; m2 healthy; wait 30000;` +
    'states ready draining ready; changes m2 draining at once, m2 dead, m2 draining',
  'a drain that leaves no other apiserver still takes none away that lives: all of them drain':
    'm3 refusing; drain m1 m2; wait 10000; states draining draining dead',
  'one that is shut down while its host is drained, and back after that, becomes ready':
    `drain m2; ${noticed}; m2 failing; wait 5000; undrain m2; wait 5000; states ready draining ready;` +
    'm2 is undrained; m2 says shutdown; m2 healthy; m2 ready',
});

test('one drain check is made in two seconds, and none of an apiserver that accepts nothing', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'refusing');
  await world.clock.advance(1000);
  world.sent.clear();
  await world.clock.advance(60_000);
  expect(world.sent.to(second).drainChecks.length).toBeGreaterThan(25);
  expect(world.sent.to(second).drainChecks.length).toBeLessThanOrEqual(31);
  expect(world.sent.to(third).drainChecks).toEqual([]);
});

const [ownText, secondText, thirdText] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const since = new Date('2026-11-23T10:00:00.000Z');

const toAddress = (address: string) => ({ family: 'ipv4', address, device: 'eth0' }) as const;

const vip = toAddress('10.0.0.50');
const mac = '02:00:00:00:00:12';
const vacant = /no other host has taken 10\.0\.0\.50: this host may hold it until vipnat undrain/;

/** An agent on the host of the first of three apiservers, which holds the VIP. */
async function begin(drain: FakeDrain) {
  const { running, kernel } = await playAgent('before; start; wait 5000', {
    config: { endpoints: [ownText, secondText, thirdText].map(toEndpoint) },
    prepare: (host) => {
      for (const address of [toAddress('10.77.0.11'), vip]) host.kernel.addAddress(address);
    },
    world: { ports: { drain } },
  });
  return { ...running, kernel };
}

type World = Awaited<ReturnType<typeof begin>>;

/** What happens to a host, to its drain, and to who else may have the VIP. */
function listCauses(world: () => World, drain: FakeDrain): Steps {
  return {
    wait: (ms) => world().clock.advance(Number(ms)),
    /** Anew, a minute later, where that is said. */
    drain: (again) => {
      drain.since = again === '' ? since : new Date(since.getTime() + 60_000);
      drain.vipStaysSince = null;
      world().agent.checkDrain();
    },
    undrain: () => {
      drain.since = null;
      world().agent.checkDrain();
    },
    /** Another program removes or edits the rule. */
    harm: async (how) => {
      drain.ports = how === 'removed' ? [] : null;
      world().kernel.addAddress(toAddress('10.0.0.99'));
      await world().clock.advance(5000);
      expect(drain.ports).toEqual([6443]);
      world().kernel.removeAddress('10.0.0.99');
      await world().clock.advance(5000);
    },
    break: (problem) => (drain.problem = new VipnatError('TOOL_MISSING', problem)),
    full: (problem) => (world().trackFile.problem = new VipnatError('TRACK_FILE_NOT_WRITTEN', problem)),
    mend: () => (drain.problem = world().trackFile.problem = null),
    readonly: (problem) => (drain.readOnly = new VipnatError('STATE_NOT_WRITTEN', problem)),
    second: (what) => {
      const { apiservers } = world();
      if (what.endsWith('drained')) apiservers.drain(secondText, what === 'drained');
      else apiservers.set(secondText, what as Behaviour);
    },
    others: (behaviour) => {
      for (const text of [secondText, thirdText]) world().apiservers.set(text, behaviour as Behaviour);
    },
    /** As keepalived does where it is told so: the VIP goes. */
    lose: () => {
      world().kernel.removeAddress(vip.address);
    },
    taken: () => world().link.others.set(vip.address, mac),
    vacant: () => world().link.others.delete(vip.address),
    proxied: () => (world().link.proxy = mac),
    unasked: () => (world().link.problem = new Error('not permitted')),
  };
}

const isDraining = `${secondText} is draining: its host is drained`;

const stuck =
  '[TRACK_FILE_NOT_WRITTEN] the agent has read the change, but the virtual IPs do not move: no space left. It tries again within a minute';

const describeUnkept = ({ code, message }: VipnatError) => `[${code}] ${message}`;

/** A host whose agent `start` starts: `start drained`, or `start staying`, where an agent before it found nobody else for the VIP. */
function createHost(): Steps {
  const drain = new FakeDrain();
  let started: World | null = null;
  let asked = 0;
  const world = (): World => {
    if (started === null) throw new Error('it was not started');
    return started;
  };
  const listTracked = () => {
    const { values } = world().trackFile;
    return values.slice(Math.max(0, values.indexOf(1)));
  };
  const warnings = (pattern: RegExp) => linesOf(world(), 'warn').filter((line) => pattern.test(line));
  const says = (text: string) => linesOf(world(), 'info').filter((line) => line.includes(text)).length;
  return {
    ...listCauses(world, drain),
    start: async (how) => {
      if (how !== '') drain.since = since;
      if (how === 'staying') drain.vipStaysSince = since;
      started = await begin(drain);
    },
    stop: () => world().agent.stop(),
    mark: () => (asked = world().link.asked.length),
    /** So many questions for the VIP since the mark: at least, and at most. */
    asked: (text) => {
      const [least = 0, most] = text.split(' ').map(Number);
      expect(world().link.asked.length - asked).toBeGreaterThanOrEqual(least);
      expect(world().link.asked.length - asked).toBeLessThanOrEqual(most ?? least);
    },
    quiet: async (ms) => {
      const { length } = drain.written;
      await world().clock.advance(Number(ms));
      expect(drain.written).toHaveLength(length);
    },
    ...toChecks({
      ports: (text) => [drain.ports?.join(' '), text],
      reads: (count) => [drain.reads, Number(count)],
      written: (count) => [drain.written.length, Number(count)],
      check: (what) => [
        world().agent.checkDrain(),
        {
          ...{ since: what === 'drained' ? since : null, vipStaysSince: null },
          ...{ isKept: true, problem: null, vipProblem: null },
        },
      ],
      /** Why the command that waits for it fails. */
      fails: (text) => [describeUnkept(explainUnkept(world().agent.checkDrain())), text],
      kept: (text) => [String(world().agent.checkDrain().isKept), text],
      problem: (text) => [world().agent.checkDrain().problem, text],
      stays: () => [drain.vipStaysSince, world().agent.checkDrain().vipStaysSince],
      /** What keepalived is told last, or from the first 1 on. */
      track: (value) => [world().trackFile.values.at(-1), Number(value)],
      tracked: (text) => [listTracked().join(' '), text],
      warned: (count) => [warnings(vacant).length, Number(count)],
      warns: (text) => [warnings(new RegExp(text.replace(/^\S+ /, ''))).length, Number.parseInt(text, 10)],
      told: (count) => [says(isDraining), Number(count)],
      says: (text) => [says(text), 1],
    }),
  };
}

test('a drain is kept only once a sync that was told of it has judged who may hold the VIP', async () => {
  const { clock, agent, logger } = await begin(new FakeDrain());
  await agent.stop();
  const ports = new FakeDrain();
  const { store, rule } = ports;
  const askLink = () => Promise.resolve(null);
  const drain = new HostDrain({ store, rule, clock, logger, askLink, onChange: () => undefined });
  const sync = async () => {
    drain.synced({
      decisions: [],
      observation: { addresses: [] },
      health: new Map([[ownText, {}]]),
    } as never);
    await clock.advance(1);
  };
  await sync();
  expect(drain.state).toMatchObject({ since: null, isKept: true });
  ports.since = since;
  await sync();
  expect([drain.state, ports.ports]).toMatchObject([{ since, isKept: false }, [6443]]);
  await drain.isLeaving();
  await sync();
  expect(drain.state).toMatchObject({ since, isKept: true });
});

describe('a host', () => {
  testSteps(createHost, {
    'that was never drained reads its rule once, and writes none':
      'start; wait 600000; reads 1; written 0; check free; track 0',
    'that is drained refuses drain checks at its own port, and lets the VIP go':
      'start; drain; wait 1000; ports 6443; check drained; track 1; warns 1 drained; ' +
      'warns 1 ^this host is drained since 2026-11-23T10:00:00.000Z: its apiserver gets no new connections, and the VIP leaves. ' +
      'vipnat undrain ends that$',
    'whose file goes is no longer drained: the rule is removed, and the node may hold the VIP':
      'start drained; ports 6443; track 1; says at port 6443 are refused; undrain; wait 1000; ports ; track 0; ' +
      'says drain checks are accepted',
    'that is drained never says that it can serve where an agent starts': 'start drained; tracked 1',
    'has its rule back at the next look after another program removed or edited it, and is written to for nothing else':
      'start drained; harm removed; harm edited; quiet 300000',
    'that is drained keeps the VIP where no apiserver on another host takes connections':
      'start drained; others refusing; wait 5000; track 0; stop; track 0',
    'that is drained does not take the VIP again where its agent ends, or is started for a moment':
      'start drained; track 1; stop; track 1; tracked 1',
    'whose VIP stays may hold it also where its agent ends': 'start staying; stop; track 0',
    'whose rule cannot be written says so once, and tries again':
      'start; break nft is not on this host; wait 180000; warns 1 ^nft; problem nft is not on this host; mend; drain; ' +
      'wait 120000; check drained',
    'is drained only once keepalived is told, and says why it is not':
      `start; full no space left; drain; wait 1000; ports 6443; kept false; fails ${stuck}; mend; wait 60000; check drained; track 1; ` +
      `full no space left; undrain; wait 1000; kept false; fails ${stuck}; mend; wait 60000; check free; track 0`,
    'tells of another apiserver whose host is drained, also where it was dead, or was draining before':
      'start; second refusing; second drained; wait 5000; told 0; second healthy; wait 10000; told 1; second undrained; ' +
      'second failing; wait 10000; second drained; wait 60000; told 2',
  });
});

describe('the VIP that a drained host has given up', () => {
  testSteps(createHost, {
    // Each answer is followed by a question for an address of this host: a router may answer for all.
    'stays away while another host answers for it, asked for once in five seconds':
      'start drained; lose; taken; wait 10000; mark; wait 600000; asked 201 240; track 1; warned 0',
    // Another keepalived starts then: nothing flaps, and nobody is asked. Drained anew it leaves.
    'may come back once nobody has answered for eight seconds, and stays until undrain':
      'start drained; lose; wait 7000; track 1; wait 10000; track 0; warned 1; stays; ports 6443; taken; mark; ' +
      'wait 600000; tracked 1 0; asked 0; drain again; wait 5000; track 1',
    'stays also where that could not be written':
      'start drained; readonly the folder is read-only; lose; wait 120000; track 0; warned 1; warns 1 ^the folder is read-only$',
    'stays also for the next agent':
      'start staying; tracked 0; warns 1 the VIP may stay, because no other host took it',
    'is missed by the silences of this drain alone: those of one before count for nothing':
      'start drained; lose; wait 7000; undrain; wait 60000; drain; wait 7000; warned 0; wait 10000; warned 1',
    'is not missed for a silence that ends, nor where it has not left': `start drained; wait 60000; lose; taken; ${'vacant; wait 6000; taken; wait 6000; '.repeat(20)}track 1; warned 0`,
    'has no holder where a router answers for every address':
      'start drained; lose; proxied; wait 20000; warned 1',
    'has no holder where nobody can be asked': 'start drained; lose; unasked; wait 20000; warned 1',
  });
});

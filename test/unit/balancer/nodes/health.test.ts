import { useFakeNodes, FakeNodes, testNodes } from './fake-nodes.ts';
import { describe, test, expect } from '@jest/globals';
import { advanceUntil } from '../../advance-until.ts';
import { ProbeTurns } from '../../../../balancer/nodes/health.ts';

const others = 'w1 w2 w3 w4 w5 w6 w7 w8';

describe('a node that holds addresses', () => {
  testNodes({
    'takes a node out within 0.8 s that has lost its power, and back after two answers':
      'silent w2; wait 800; out w2; told w2 out; open w2; wait 600; out -; told w2 out, w2 back',
    'takes no node out whose program hangs: the kernel refuses connects where nobody listens':
      'hung w1; wait 120000; told -; silent w1; wait 800; out w1',
    'asks at the port that answers, one connect each time, where a firewall drops the other':
      'fresh; filtered w1 w2 w3; settle; mark; wait 1000; connects 12 15; told -; silent w1; wait 800; out w1',
    'asks at the other port when a firewall comes': 'filtered w1 w2 w3; wait 60000; told -',
    'takes a refusal for life': 'refused w1 w2 w3; wait 5000; told -; silent w1; wait 800; out w1',
    'takes nobody out while its own network is away, and nobody when it is back':
      'cut; wait 60000; join; wait 5000; told -',
    'takes half of the nodes out that die at once': '8 nodes; silent w1 w3 w5 w7; wait 800; out w1 w3 w5 w7',
    'takes no more than half of the nodes out, itself counted: a firewall comes to all of them':
      '2 nodes; silent w1; wait 800; silent w2; wait 5000; out w1; told w1 out, w2 stays; open w1; wait 1000; out w2',
    'counts no node to that half whose Lease has expired: one is in repair, and the other one dies':
      '2 nodes; renews w2; silent w1; wait 90000; lost w1; renews -; silent w2; wait 1000; out w1 w2; wait 90000; lost w1',
    'counts no node to that half that answers again':
      '7 nodes; silent w1 w2 w3 w4; wait 20000; open w1 w2 w3 w4; wait 1000; silent w5; wait 1000; out w1 w2 w3 w4 w5',
    'forgets open connections to half of the nodes at most, if all Leases expire':
      '8 nodes; silent w1 w2 w3 w4 w5 w6 w7; wait 300000; lost w1 w2 w3 w4; out w1 w2 w3 w4 w5 w6',
    'has all nodes in use again whose balancers report, when a firewall has come': `9 nodes; renews ${others}; silent ${others}; wait 3000; out w1 w2 w3 w4 w5; wait 117000; out -; lost -; unheard ${others}`,
    'takes new connections away at most while no other node answers: its own network may be away':
      '1 nodes; cut; wait 60000; out w1; lost -; told w1 out',
    'needs another node that answers for each verdict about open connections':
      '2 nodes; silent w1; wait 800; cut; wait 60000; lost -',
    'never takes a node out that never answered, and says so once':
      'fresh; silent w3; settle; wait 60000; told w3 never answers; unheard w3; open w3; wait 1000; unheard -',
    'gives open connections up when its Lease has expired as well, and not before':
      'silent w2; wait 1000; open w2; wait 1000; told w2 out, w2 back; silent w2; wait 40000; lost -; ' +
      'wait 3000; lost w2; renews w2; wait 200000; lost -; out -; unheard w2',
    'keeps open connections while the API is away: nobody else has said that the node is dead':
      'refuse the API does not answer; silent w2; wait 600000; out w2; lost -; allow; wait 90000; lost w2',
    'uses a node again that is silent for a minute and renews its Lease, and asks it on':
      'renews w2; silent w2; wait 59000; out w2; lost -; wait 2500; out -; told w2 out, w2 reports, w2 back; unheard w2; ' +
      'open w2; wait 1000; unheard -; silent w2; wait 800; out w2',
    'goes on as before when somebody sets the date':
      'jump -3600000; wait 5000; jump 7200000; wait 5000; told -; silent w1; wait 800; out w1',
  });
});

describe('a node', () => {
  testNodes({
    'that holds no address asks seldom, and knows all the same who is dead when addresses come to it':
      'fresh; wait 10000; mark; wait 60000; connects 0 59; silent w1; hold; wait 1100; out w1',
    'whose balancer has no endpoints there is asked as a witness, where few have some':
      'fresh; watch w1 own; settle; cut; wait 3000; told -; join; silent w1; wait 1500; out w1',
  });
});

describe('a node that has just started', () => {
  testNodes({
    'takes a node out that another one names, and that does not answer either':
      'fresh; name w2; silent w2; settle; out w2; lost -; told w2 out; open w2; wait 1000; out -',
    'knows nobody before it has asked each, and asks all at once':
      '9 nodes; fresh; silent w3; wait 300; acquainted no; wait 200; acquainted yes; wait 3000; ' +
      'connects 20 29',
    'waits five seconds for the API, and no longer':
      'fresh; hang; wait 4900; acquainted no; wait 100; acquainted yes',
    'does not wait where Leases may not be listed, or nobody is asked':
      'fresh; refuse leases are forbidden; acquainted no; wait 100; acquainted yes',
  });
});

describe('the addresses of nodes', () => {
  testNodes({
    'are asked for again when a node does not answer: another address begins anew':
      'wait 60000; silent w2; place w2 10.0.0.99; open w2; leave 10.0.0.2; wait 800; out w2; wait 2500; out -; ' +
      'asks-not 10.0.0.2',
    'are listed seldom while all is well, and soon when somebody is missed':
      'mark; wait 300000; lists 0; place w4 10.0.0.4; watch w1 w2 w3 w4; wait 6000; asked 10.0.0.4',
    'may not be listed, by an older role: nobody is asked, and that is said once':
      'fresh; refuse leases are forbidden; wait 3600000; told leases are forbidden; connects 0; lists 0 39; ' +
      'allow; wait 400000; told leases are forbidden, listed; connects 1 99999',
  });
});

const { start, started: running } = useFakeNodes();

test('each other packet that is lost takes no node out', async () => {
  const nodes = await start(3);
  for (let round = 0; round < 40; round += 1) {
    nodes.set(round % 2 === 0 ? 'silent' : 'open', 'w2');
    const before = nodes.connects.length;
    const isAsked = () => nodes.connects.slice(before).some(({ address }) => address === '10.0.0.2');
    await advanceUntil(nodes.clock, 'it is asked', isAsked);
  }
  expect(nodes.told).toEqual([]);
});

test('with port 0 nobody is asked, no Lease is listed, and nobody is known to live', async () => {
  const nodes = new FakeNodes(3, { port: 0 });
  running.push(nodes);
  await nodes.settle();
  expect({ lists: nodes.lists, connects: nodes.connects }).toEqual({ lists: 0, connects: [] });
  expect(nodes.health.outages.unheard.size).toBe(3);
});

const pace = { intervalMs: 5000, perSecond: 20 };

/** Turns of nodes that were all taken once at 0, and none of which is due before. */
function startTurns(nodes: readonly string[], random = () => 0, its = pace): ProbeTurns {
  const turns = new ProbeTurns(random, its);
  turns.setNodes(new Set(nodes), 0);
  nodes.forEach((_, index) => turns.take(index * 1000));
  return turns;
}

test('a node is asked again after its interval, and one of which something is doubtful after 200 ms', () => {
  for (const [isDoubtful, dueAt] of [
    [false, 5000],
    [true, 200],
  ] as const) {
    const turns = startTurns(['a']);
    turns.ended('a', { askedAt: 0, isDoubtful });
    expect([turns.take(dueAt - 1), turns.take(dueAt)]).toEqual([null, 'a']);
  }
});

test('a doubt waits no longer than the interval does, and a tenth less by chance', () => {
  const turns = startTurns(['a'], () => 0, { intervalMs: 100, perSecond: 20 });
  turns.ended('a', { askedAt: 0, isDoubtful: true });
  expect(turns.dueAt).toBe(100);
  const early = startTurns(['a'], () => 1);
  early.ended('a', { askedAt: 0, isDoubtful: true });
  expect(early.dueAt).toBe(180);
});

test('of many nodes no more are asked in a second than the pace allows: the interval grows', () => {
  const nodes = Array.from({ length: 200 }, (_, index) => `n${index}`);
  const turns = startTurns(nodes);
  turns.ended('n7', { askedAt: 199_000, isDoubtful: false });
  expect(turns.dueAt).toBe(199_000 + (200 * 1000) / 20);
  turns.hurry('n7', 199_500);
  turns.ended('n8', { askedAt: 199_000, isDoubtful: true });
  expect([turns.take(199_500), turns.take(199_549), turns.take(199_550)]).toEqual(['n8', null, 'n7']);
});

test('who is being asked is not asked again, and who is gone is asked no more', () => {
  const turns = startTurns(['a', 'b']);
  turns.hurry('a', 5000);
  expect(turns.take(5000)).toBeNull();
  turns.setNodes(new Set(['b']), 5000);
  for (const node of ['a', 'b']) turns.ended(node, { askedAt: 5000, isDoubtful: true });
  expect([turns.take(5200), turns.take(60_000)]).toEqual(['b', null]);
});

test('another pace brings forward who would be late', () => {
  const turns = startTurns(['a'], () => 0.5);
  turns.ended('a', { askedAt: 0, isDoubtful: false });
  const fast = { intervalMs: 1000, perSecond: 20 };
  expect([turns.dueAt, turns.setPace(fast, 0), turns.dueAt, turns.setPace(fast, 0)]).toEqual([
    4750,
    true,
    500,
    false,
  ]);
});

import { useFakeNodes, FakeNodes } from './fake-nodes.ts';
import { describe, test, expect } from '@jest/globals';
import { advanceUntil } from '../../advance-until.ts';

const { start, started } = useFakeNodes();

describe('a node that holds addresses', () => {
  test('takes a node out within 0.8 s that has lost its power, and back after two answers', async () => {
    const nodes = await start(3);
    nodes.set('silent', 'w2');
    await nodes.clock.advance(800);
    expect({ out: nodes.out, told: nodes.told }).toEqual({ out: ['w2'], told: ['w2 out'] });
    nodes.set('open', 'w2');
    await nodes.clock.advance(600);
    expect(nodes.out).toEqual([]);
    expect(nodes.told).toEqual(['w2 out', 'w2 back']);
  });

  test('takes a refusal for life', async () => {
    const nodes = await start(3);
    nodes.set('refused', 'w1', 'w2', 'w3');
    await nodes.clock.advance(5000);
    expect(nodes.told).toEqual([]);
    nodes.set('silent', 'w1');
    await nodes.clock.advance(800);
    expect(nodes.out).toEqual(['w1']);
  });

  test('takes nobody out while its own network is away, and nobody when it is back', async () => {
    const nodes = await start(3);
    nodes.isCut = true;
    await nodes.clock.advance(60_000);
    nodes.isCut = false;
    await nodes.clock.advance(5000);
    expect(nodes.told).toEqual([]);
  });

  test('takes half of the nodes out that die at once', async () => {
    const nodes = await start(8);
    nodes.set('silent', 'w1', 'w3', 'w5', 'w7');
    await nodes.clock.advance(800);
    expect(nodes.out).toEqual(['w1', 'w3', 'w5', 'w7']);
  });

  test('takes the last other node out by itself: nobody is left to be waited for', async () => {
    const nodes = await start(2);
    nodes.set('silent', 'w1');
    await nodes.clock.advance(800);
    nodes.set('silent', 'w2');
    await nodes.clock.advance(800);
    expect(nodes.out).toEqual(['w1', 'w2']);
  });

  test('never takes a node out that never answered, and says so once', async () => {
    const nodes = new FakeNodes(3);
    started.push(nodes);
    nodes.set('silent', 'w3');
    await nodes.settle();
    await nodes.clock.advance(60_000);
    expect(nodes.told).toEqual(['w3 never answers']);
    expect(nodes.health.unheard).toEqual([expect.stringMatching(/^w3 \([\d.]+:10256\)$/)]);
    nodes.set('open', 'w3');
    await nodes.clock.advance(1000);
    expect(nodes.health.unheard).toEqual([]);
  });

  test('gives open connections up after five seconds, and not after one', async () => {
    const nodes = await start(3);
    nodes.set('silent', 'w2');
    await nodes.clock.advance(1000);
    nodes.set('open', 'w2');
    await nodes.clock.advance(1000);
    expect(nodes.told).toEqual(['w2 out', 'w2 back']);
    nodes.set('silent', 'w2');
    await nodes.clock.advance(4900);
    expect(nodes.lost).toEqual([]);
    await nodes.clock.advance(700);
    expect(nodes.lost).toEqual(['w2']);
  });

  test('does not mind each other packet that is lost', async () => {
    const nodes = await start(3);
    for (let round = 0; round < 40; round += 1) {
      nodes.set(round % 2 === 0 ? 'silent' : 'open', 'w2');
      const before = nodes.connects.length;
      const isAsked = () => nodes.connects.slice(before).some(({ address }) => address === '10.0.0.2');
      await advanceUntil(nodes.clock, 'it is asked', isAsked);
    }
    expect(nodes.told).toEqual([]);
  });

  test('goes on as before when somebody sets the date', async () => {
    const nodes = await start(3);
    nodes.clock.jump(-3_600_000);
    await nodes.clock.advance(5000);
    nodes.clock.jump(7_200_000);
    await nodes.clock.advance(5000);
    expect(nodes.told).toEqual([]);
    nodes.set('silent', 'w1');
    await nodes.clock.advance(800);
    expect(nodes.out).toEqual(['w1']);
  });
});

describe('a node that holds no address', () => {
  test('asks seldom, and knows all the same who is dead when addresses come to it', async () => {
    const nodes = new FakeNodes(3);
    started.push(nodes);
    await nodes.clock.advance(10_000);
    const before = nodes.connects.length;
    await nodes.clock.advance(60_000);
    expect((nodes.connects.length - before) / 60).toBeLessThan(1);
    nodes.set('silent', 'w1');
    nodes.health.setHolding(true);
    await nodes.clock.advance(1100);
    expect(nodes.out).toEqual(['w1']);
  });
});

describe('the addresses of nodes', () => {
  test('are asked for again when a node does not answer: another address begins anew', async () => {
    const nodes = await start(3);
    await nodes.clock.advance(60_000);
    nodes.set('silent', 'w2');
    nodes.place('w2', '10.0.0.99');
    nodes.set('open', 'w2');
    nodes.addressToManner.delete('10.0.0.2');
    await nodes.clock.advance(800);
    expect(nodes.out).toEqual(['w2']);
    await nodes.clock.advance(2500);
    expect(nodes.out).toEqual([]);
    expect(nodes.connects.at(-1)?.address).not.toBe('10.0.0.2');
  });

  test('are listed seldom while all is well, and soon when somebody is missed', async () => {
    const nodes = await start(3);
    const before = nodes.lists;
    await nodes.clock.advance(300_000);
    expect(nodes.lists).toBe(before);
    nodes.place('w4', '10.0.0.4');
    nodes.health.watch(new Set(['w1', 'w2', 'w3', 'w4']));
    await nodes.clock.advance(6000);
    expect(nodes.connects.some(({ address }) => address === '10.0.0.4')).toBe(true);
  });

  test('may not be listed, by an older role: nobody is asked, and that is said once', async () => {
    const nodes = new FakeNodes(3);
    started.push(nodes);
    nodes.refusal = new Error('leases are forbidden');
    await nodes.clock.advance(3_600_000);
    expect({ told: nodes.told, connects: nodes.connects }).toEqual({
      told: ['leases are forbidden'],
      connects: [],
    });
    expect(nodes.lists).toBeLessThan(40);
    nodes.refusal = null;
    await nodes.clock.advance(400_000);
    expect(nodes.told).toEqual(['leases are forbidden', 'listed']);
    expect(nodes.connects.length).toBeGreaterThan(0);
  });
});

test('with port 0 nobody is asked, and no Lease is listed', async () => {
  const nodes = new FakeNodes(3, { port: 0 });
  started.push(nodes);
  await nodes.settle();
  expect({ lists: nodes.lists, connects: nodes.connects }).toEqual({ lists: 0, connects: [] });
});

test('nodes without endpoints are asked as witnesses, where few have some', async () => {
  const nodes = new FakeNodes(3);
  started.push(nodes);
  nodes.health.watch(new Set(['w1', 'own']));
  await nodes.settle();
  nodes.isCut = true;
  await nodes.clock.advance(3000);
  expect(nodes.told).toEqual([]);
  nodes.isCut = false;
  nodes.set('silent', 'w1');
  await nodes.clock.advance(1500);
  expect(nodes.out).toEqual(['w1']);
});

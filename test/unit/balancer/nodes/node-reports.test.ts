import { describe, expect, test } from '@jest/globals';
import { type FakeNodes, useFakeNodes } from './fake-nodes.ts';

const { start } = useFakeNodes();

describe('a node that was away for long', () => {
  /** Of three nodes that have balancers, w2 has just been lost. */
  async function lose(): Promise<FakeNodes> {
    const nodes = await start(3);
    for (const node of nodes.nodeToAddress.keys()) nodes.nodeToRenewal.set(node, 'before');
    nodes.set('silent', 'w2');
    await nodes.clock.advance(13_000);
    expect(nodes.lost).toEqual(['w2']);
    return nodes;
  }

  test('is back three seconds after the report of its balancer: it answers before its pods run', async () => {
    const nodes = await lose();
    nodes.set('refused', 'w2');
    await nodes.clock.advance(20_000);
    expect({ out: nodes.out, lost: nodes.lost }).toEqual({ out: ['w2'], lost: [] });
    nodes.nodeToRenewal.set('w2', 'after');
    await nodes.clock.advance(2900);
    expect(nodes.out).toEqual(['w2']);
    await nodes.clock.advance(1500);
    expect(nodes.out).toEqual([]);
    expect(nodes.told).toEqual(['w2 out', 'w2 lost', 'w2 returns', 'w2 back']);
  });

  test('is back with its answers if it was away for less than twelve seconds: no machine starts again so soon', async () => {
    const nodes = await start(3);
    nodes.set('silent', 'w2');
    await nodes.clock.advance(11_000);
    expect(nodes.lost).toEqual(['w2']);
    nodes.set('open', 'w2');
    await nodes.clock.advance(600);
    expect({ out: nodes.out, lost: nodes.lost }).toEqual({ out: [], lost: [] });
  });

  test('is back soon if its balancer went on to report: only the network was away', async () => {
    const nodes = await lose();
    nodes.nodeToRenewal.set('w2', 'meanwhile');
    nodes.set('open', 'w2');
    await nodes.clock.advance(5000);
    expect(nodes.out).toEqual([]);
  });

  test('is back after a minute without a report, as when the API is away', async () => {
    const nodes = await lose();
    nodes.refusal = new Error('the API does not answer');
    nodes.set('open', 'w2');
    await nodes.clock.advance(59_000);
    expect(nodes.out).toEqual(['w2']);
    await nodes.clock.advance(1500);
    expect(nodes.out).toEqual([]);
  });

  test('needs another report if it is silent again', async () => {
    const nodes = await lose();
    nodes.set('open', 'w2');
    nodes.nodeToRenewal.set('w2', 'once');
    await nodes.clock.advance(2500);
    nodes.set('silent', 'w2');
    await nodes.clock.advance(3000);
    nodes.set('open', 'w2');
    await nodes.clock.advance(20_000);
    expect(nodes.out).toEqual(['w2']);
    nodes.nodeToRenewal.set('w2', 'twice');
    await nodes.clock.advance(5000);
    expect(nodes.out).toEqual([]);
  });

  test('is asked for its report once a second by a node with addresses, seldom by others, and by nobody later', async () => {
    const nodes = await lose();
    nodes.set('open', 'w2');
    const count = async (milliseconds: number) => {
      const before = nodes.reads.length;
      await nodes.clock.advance(milliseconds);
      return nodes.reads.length - before;
    };
    await nodes.clock.advance(2000);
    const often = await count(20_000);
    nodes.health.setHolding(false);
    await nodes.clock.advance(1000);
    const seldom = await count(20_000);
    expect({ often, seldom }).toEqual({ often: 26, seldom: 2 });
    nodes.nodeToRenewal.set('w2', 'after');
    await nodes.clock.advance(20_000);
    expect(nodes.out).toEqual([]);
    expect(await count(60_000)).toBe(0);
    expect(new Set(nodes.reads.map(({ node }) => node))).toEqual(new Set(['w2']));
  });
});

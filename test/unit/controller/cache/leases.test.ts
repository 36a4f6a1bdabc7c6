import { toLeaseResource, type Lease, toLeaseName, toAnnotations } from '../../../../lib/api/node.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { Cache } from '../../../../controller/cache/cache.ts';
import { NodeLeases } from '../../../../controller/cache/leases.ts';
import { makeReport, makeNode } from '../../../support/fakes/service-objects.ts';
import { beforeEach, describe, test, expect } from '@jest/globals';
import { toGateTypes } from '../../../../lib/api/endpoints.ts';
import { kinds } from '../../../../controller/leadership.ts';
import { nextStep } from '../../../support/fakes/service-steps.ts';
import { unresponsiveAnnotation } from '../../../../lib/api/vipnat.ts';

const { schema } = toLeaseResource('vipnat');
let clock: FakeClock;
let cache: Cache;
let listener: NodeLeases;

function makeLease(name: string, renewal: string, annotations: Record<string, string> = {}): Lease {
  const metadata = { name, uid: name, resourceVersion: '1', annotations };
  return schema.parse({ metadata, spec: { renewTime: renewal, leaseDurationSeconds: 40 } });
}

const ofNode = (renewal: string, version = 5) =>
  makeLease(toLeaseName('node-1'), renewal, toAnnotations(makeReport('node-1', version)));

function hear(after: Lease | null, before: Lease | null = null) {
  return listener.change({ key: (after ?? before)?.metadata.name ?? '', before, after });
}

/** Ticks each second. Whoever leads renews its own Lease, and hears of it. */
async function pass(seconds: number, isAnswered = true): Promise<number> {
  let news = 0;
  for (let second = 0; second < seconds; second += 1) {
    await clock.advance(1000);
    if (isAnswered) hear(makeLease('vipnat-controller', String(clock.now())));
    if (listener.tick().wakes.size > 0) news += 1;
  }
  return news;
}

const living = () => [...cache.view(0).livingReports.keys()];
const unresponsive = () =>
  [...cache.view(0).unresponsiveNodes.entries()].map(([node, { renewal }]) => `${node} ${renewal}`);

beforeEach(() => {
  clock = new FakeClock(undefined, 1);
  cache = new Cache({ isDefaultClass: false, gateTypes: toGateTypes([]) }, kinds);
  listener = new NodeLeases({ clock, electionLease: 'vipnat-controller' }, cache);
});

describe('a Lease of a node', () => {
  test('is news when it comes, and when it says something else; a renewal alone is none', () => {
    cache.take('nodes', { key: 'node-1', after: makeNode('node-1') });
    expect([hear(ofNode('one')).wakes.size, living()]).toEqual([1, ['node-1']]);
    expect(cache.view(0).candidates.haveForgotten('6')).toBe(false);
    expect([hear(ofNode('two')).wakes.size, hear(ofNode('three', 6)).wakes.size]).toEqual([0, 1]);
  });

  test('is over after its time without a renewal: the node is silent, and what it said last is known', async () => {
    hear(ofNode('one'));
    await pass(30);
    hear(ofNode('two'));
    await pass(20);
    hear(ofNode('two'));
    expect([await pass(20), await pass(1)]).toEqual([0, 1]);
    expect([living(), unresponsive()]).toEqual([[], ['node-1 two']]);
    // A list that is made anew has the same Lease still.
    expect([hear(ofNode('two')).wakes.size, living()]).toEqual([0, []]);
    expect(hear(ofNode('three')).wakes.size).toBe(1);
    expect([living(), unresponsive()]).toEqual([['node-1'], []]);
  });

  test('is over for nobody while this process does not hear its own', async () => {
    hear(ofNode('one'));
    expect([await pass(10), await pass(300, false), living()]).toEqual([0, 0, ['node-1']]);
    // Nor does it hear others while it is held up.
    clock.stall(3_600_000);
    expect(await pass(1)).toBe(0);
    // Six seconds of silence counted: they could have been the network's.
    expect([await pass(22), await pass(10)]).toEqual([0, 1]);
  });

  test('that is deleted leaves nothing behind', async () => {
    hear(ofNode('one'));
    await pass(30);
    expect(hear(null, ofNode('one')).wakes.size).toBe(1);
    expect([living(), unresponsive()]).toEqual([[], []]);
    hear(ofNode('one'));
    expect(await pass(20)).toBe(0);
    hear(ofNode('two'));
    await pass(42);
    expect(unresponsive()).toEqual(['node-1 two']);
    hear(null, ofNode('two'));
    expect(unresponsive()).toEqual([]);
    hear(ofNode('two'));
    expect(living()).toEqual(['node-1']);
  });
});

test('other Leases say nothing', () => {
  expect(hear(makeLease('vipnat-controller', 'one')).wakes.size).toBe(0);
  expect([hear(null, makeLease('other', 'one')).wakes.size, living()]).toEqual([0, []]);
});

describe('a leader that begins', () => {
  const noted = (renewal: string) => ({
    ...ofNode(renewal),
    metadata: {
      ...ofNode(renewal).metadata,
      annotations: { ...ofNode(renewal).metadata.annotations, [unresponsiveAnnotation]: 'one' },
    },
  });

  test('calls a node silent at once if the leader before did, and nobody has renewed the Lease since', () => {
    hear(noted('one'));
    expect([living(), unresponsive()]).toEqual([[], ['node-1 one']]);
    hear(noted('two'), noted('one'));
    expect([living(), unresponsive()]).toEqual([['node-1'], []]);
  });

  test('waits for no Lease whose Node is gone, unless it is renewed', () => {
    const haveForgotten = () => cache.view(0).candidates.haveForgotten('9');
    hear(ofNode('one'));
    expect(haveForgotten()).toBe(true);
    hear(ofNode('two'), ofNode('one'));
    expect(haveForgotten()).toBe(false);
  });
});

test('a Lease that is over gets a note, and is deleted when its Node is gone', async () => {
  const settings = { isDefaultClass: false, gateTypes: toGateTypes([]), namespace: 'vipnat' };
  cache = new Cache(settings, kinds);
  listener = new NodeLeases({ clock, electionLease: 'vipnat-controller' }, cache);
  const step = () => nextStep({ kind: 'Lease', key: toLeaseName('node-1') }, cache.view(0));
  const node = makeNode('node-1');
  cache.take('nodes', { key: 'node-1', after: node });
  hear(ofNode('one'));
  expect(step()).toEqual({ does: 'nothing' });
  await pass(42);
  const path = '/apis/coordination.k8s.io/v1/namespaces/vipnat/leases/vipnat-lb-node-1';
  const metadata = { resourceVersion: '1', annotations: { [unresponsiveAnnotation]: 'one' } };
  expect(step()).toMatchObject({ write: { method: 'PATCH', path, body: { metadata } } });
  const { keys } = cache.take('nodes', { key: 'node-1', after: null });
  expect(keys).toContainEqual({ kind: 'Lease', key: toLeaseName('node-1') });
  expect(step()).toMatchObject({
    write: { method: 'DELETE', path, body: { preconditions: { resourceVersion: '1' } } },
  });
});

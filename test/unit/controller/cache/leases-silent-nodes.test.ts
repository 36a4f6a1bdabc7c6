import {
  makeCache,
  makeNode,
  makeReport,
  nowMs,
  makeVirtualIp,
  toUser,
  makeService,
  publish,
} from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';
import { listUnresponsiveOwners, listAbsent } from '../../../../controller/cache/leases.ts';
import { getWrite, decide } from '../../../support/fakes/service-steps.ts';

const cache = () =>
  makeCache({
    nodes: ['node-1', 'node-2', 'node-3'].map((name) => makeNode(name)),
    reports: ['node-2', 'node-1', 'node-3', 'gone'].map((name) => makeReport(name, 19)),
    unresponsive: ['node-2', 'node-1', 'gone'],
  });
const world = (changed = cache()) => changed.view(nowMs);
const virtualIp = (absent: readonly object[] = []) => makeVirtualIp('10.0.9.10', [], { spec: { absent } });

describe('nodes that may serve an address on', () => {
  test('are not those that had this version before they fell silent', () => {
    const older = makeVirtualIp('10.0.9.10', [], { metadata: { resourceVersion: '19' } });
    expect(listUnresponsiveOwners(older, world())).toEqual([]);
  });

  test('are not those that were silent when it was given, unless they were heard since', () => {
    const absent = [
      { node: 'node-1', renewal: 'last' },
      { node: 'node-2', renewal: 'one before' },
    ];
    expect(listUnresponsiveOwners(virtualIp(absent), world())).toEqual(['node-2']);
  });

  test('are no more when they report, their Lease is deleted, or their Node is', () => {
    const reporting = cache();
    reporting.takeReport('node-1', makeReport('node-1', 20));
    expect(listUnresponsiveOwners(virtualIp(), world(reporting))).toEqual(['node-2']);
    const deleted = cache();
    deleted.takeReport('node-2', null);
    expect(listUnresponsiveOwners(virtualIp(), world(deleted))).toEqual(['node-1']);
    const off = cache();
    const { wakes } = off.take('nodes', { key: 'node-1', after: null });
    expect([...wakes]).toContain('nodes');
    expect(listUnresponsiveOwners(virtualIp(), world(off))).toEqual(['node-2']);
  });
});

describe('an address that is taken now', () => {
  test('names those that are silent, with their last renewal', () => {
    expect(listAbsent(world(), null)).toEqual([
      { node: 'node-1', renewal: 'last' },
      { node: 'node-2', renewal: 'last' },
    ]);
  });

  test.each([
    [200, 200],
    [500, 348],
  ])('names few enough of them to stay small, and waits for all others: of %s %s', (count, named) => {
    const names = Array.from({ length: count }, (_, at) => `${at}.${'n'.repeat(60)}`);
    const nodes = names.map((name) => makeNode(name));
    const reports = names.map((name) => makeReport(name, 19));
    const silent = makeCache({ nodes, reports, unresponsive: names }).view(nowMs);
    const absent = listAbsent(silent, null);
    expect(absent.length).toBe(named);
    expect(JSON.stringify(absent).length).toBeLessThan(33_000);
    expect(listUnresponsiveOwners(virtualIp(absent), silent).length).toBe(count - named);
  });

  test('and is being given back names none that may serve it still', () => {
    const leaving = [toUser('apps/a')];
    const heard = [{ node: 'node-2', renewal: 'last' }];
    const taken = makeVirtualIp('10.0.9.10', [], { spec: { leaving, absent: heard } });
    expect(listAbsent(world(), taken)).toEqual(heard);
  });
});

describe('a Service', () => {
  test('gets an address with the names of the nodes that will not hear of it', () => {
    const reports = [makeReport('node-1', 5)];
    const write = getWrite(decide({ services: [makeService('apps/a')], reports, unresponsive: ['node-1'] }));
    expect(write.body).toMatchObject({ spec: { absent: [{ node: 'node-1', renewal: 'last' }] } });
    // A former list is replaced.
    const held = makeVirtualIp('10.0.9.10', [], { spec: { absent: [{ node: 'node-1', renewal: 'last' }] } });
    const again = getWrite(decide({ services: [makeService('apps/a')], virtualIps: [held] }));
    expect(again).toMatchObject({ method: 'PATCH', body: { spec: { absent: [] } } });
  });

  test('trusts no silent node of an address that its status has, and whose VirtualIP is gone', () => {
    const services = [makeService('apps/a', { status: publish('10.0.9.10') })];
    const reports = [makeReport('node-1', 5)];
    const write = getWrite(decide({ services, reports, unresponsive: ['node-1'] }));
    expect(write).toMatchObject({ method: 'POST', body: { spec: { absent: [] } } });
  });
});

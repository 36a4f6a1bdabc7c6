import { describe, expect, test } from '@jest/globals';
import { listAbsent, listSilentHolders } from '../../../../controller/world/silent-nodes.ts';
import {
  makeNode,
  makeReport,
  makeStore,
  makeVirtualIp,
  nowMs,
} from '../../../support/fakes/service-objects.ts';

const store = () =>
  makeStore({
    nodes: ['node-1', 'node-2', 'node-3'].map((name) => makeNode(name)),
    reports: [
      makeReport('node-2', 19),
      makeReport('node-1', 19),
      makeReport('node-3', 19),
      makeReport('gone', 19),
    ],
    silent: ['node-2', 'node-1', 'gone'],
  });
const world = (changed = store()) => changed.view(nowMs);
const virtualIp = (absent: readonly object[] = []) => makeVirtualIp('10.0.9.10', [], { spec: { absent } });

describe('nodes that may serve an address on', () => {
  test('are those whose Lease is over, and whose Node is there', () => {
    expect(listSilentHolders(virtualIp(), world())).toEqual(['node-1', 'node-2']);
  });

  test('are not those that had this version before they fell silent', () => {
    const older = makeVirtualIp('10.0.9.10', [], { metadata: { resourceVersion: '19' } });
    expect(listSilentHolders(older, world())).toEqual([]);
  });

  test('are not those that were silent when it was given, unless they were heard since', () => {
    const absent = [
      { node: 'node-1', renewal: 'last' },
      { node: 'node-2', renewal: 'one before' },
    ];
    expect(listSilentHolders(virtualIp(absent), world())).toEqual(['node-2']);
  });

  test('are no more when they report, their Lease is deleted, or their Node is', () => {
    const reporting = store();
    reporting.changeReport('node-1', makeReport('node-1', 20));
    expect(listSilentHolders(virtualIp(), world(reporting))).toEqual(['node-2']);
    const deleted = store();
    deleted.changeReport('node-2', null);
    expect(listSilentHolders(virtualIp(), world(deleted))).toEqual(['node-1']);
    const off = store();
    const { wakes } = off.changeNode({ key: 'node-1', before: makeNode('node-1'), after: null });
    expect([...wakes]).toContain('nodes');
    expect(listSilentHolders(virtualIp(), world(off))).toEqual(['node-2']);
  });
});

test('an address that is given now names those that are silent, with their last renewal', () => {
  expect(listAbsent(world())).toEqual([
    { node: 'node-1', renewal: 'last' },
    { node: 'node-2', renewal: 'last' },
  ]);
});

import { expect, test } from '@jest/globals';
import { readGateTypes, toGateTypes, toGateTypesNote } from '../../../../lib/services/gate-types.ts';
import { gateTypesAnnotation } from '../../../../lib/services/names.ts';
import { makeElection, makeNodeLease } from '../../../support/fakes/service-view.ts';

const usual = 'vipnat.io/load-balancer-ready';

/** The controllers' Lease, with this text in place of what a controller notes. */
function makeNoted(text: string) {
  const lease = makeElection();
  return { ...lease, metadata: { ...lease.metadata, annotations: { [gateTypesAnnotation]: text } } };
}

test('types that a controller notes are read, also when it leads no more', () => {
  const leases = [makeNodeLease('w1'), makeElection(600, '', ['b.example/gate', 'a.example/gate'])];
  expect([...readGateTypes(leases)]).toEqual([usual, 'a.example/gate', 'b.example/gate']);
  expect(toGateTypesNote(toGateTypes([]))).toEqual({ [gateTypesAnnotation]: `["${usual}"]` });
});

test.each([
  ['no Lease', []],
  ['the Lease of a node', [{ ...makeNoted('["a.example/gate"]'), ...makeNodeLease('w1') }]],
  ['no JSON', [makeNoted('a.example/gate')]],
  ['no list', [makeNoted('{"a.example/gate":1}')]],
  ["Kubernetes' own conditions", [makeNoted('["Ready","ContainersReady",7,null]')]],
])('of %s, only the usual type is known', (_, leases) => {
  expect([...readGateTypes(leases)]).toEqual([usual]);
});

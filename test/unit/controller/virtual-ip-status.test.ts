import { test, expect } from '@jest/globals';
import { makeSeat } from '../../support/fakes/seat-objects.ts';
import {
  makePool,
  makeNode,
  makeReport,
  makeService,
  publish,
  makeVirtualIp,
} from '../../support/fakes/service-objects.ts';
import { decide } from '../../support/fakes/service-steps.ts';

const of = { kind: 'VirtualIP', key: '10.0.9.10' } as const;

test.each([
  ['the node that holds its seat', [['node-1', true, true]], true],
  [
    'a node that may hold it, while another one does',
    [
      ['node-1', true, false],
      ['node-2', false, true],
    ],
    false,
  ],
  [
    'two of them',
    [
      ['node-1', true, false],
      ['node-2', false, true],
      ['node-3', false, true],
    ],
    true,
  ],
  [
    'one of two that say they hold it',
    [
      ['node-1', true, true],
      ['node-2', true, false],
    ],
    false,
  ],
  ['one node, while none holds it', [['node-1', false, true]], false],
  [
    'nodes that may not hold the seat',
    [
      ['node-1', true, false],
      ['node-8', true, true],
      ['node-9', true, true],
    ],
    false,
  ],
] as const)('that another host has a published address counts from %s: %j', (_, said, isFound) => {
  const seat = makeSeat(0, '10.0.9.10', ['node-1', 'node-2', 'node-3']);
  const pools = [makePool('pool', { addresses: ['10.0.9.10'], seats: 1 }, { status: { seats: [seat] } })];
  const all = ['node-1', 'node-2', 'node-3', 'node-8', 'node-9'].map((name) => makeNode(name));
  const reports = said.map(([node, isHolder, isFinder]) =>
    makeReport(node, 20, { seats: isHolder ? ['pool/0'] : [], inUse: isFinder ? ['10.0.9.10'] : [] }),
  );
  const published = [makeService('apps/a', { status: publish('10.0.9.10') })];
  const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
  const step = decide({ services: published, nodes: all, pools, virtualIps, reports }, of);
  expect(JSON.stringify(step).includes('"reason":"AnotherHost"')).toBe(isFound);
});

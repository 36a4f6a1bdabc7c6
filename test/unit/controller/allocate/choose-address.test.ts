import { expect, test } from '@jest/globals';
import {
  makeNamespace,
  makePool,
  makeService,
  makeVirtualIp,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../../support/fakes/service-steps.ts';

test('a Service gets the anchor of a seat only when no other address is free: a node holds the anchor without a Service', () => {
  const seats = [{ index: 0, anchors: ['10.0.9.10'], nodes: ['node-1'] }];
  const pools = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'], seats: 1 }, { status: { seats } })];
  for (const uid of ['1', '2', '3', '4', '5', '6', '7', '8']) {
    const service = makeService('apps/a', { metadata: { uid } });
    expect(getWrite(decide({ services: [service], pools })).key).toBe('10.0.9.11');
  }
  const virtualIps = [makeVirtualIp('10.0.9.11', ['apps/b'])];
  const services = [makeService('apps/a'), makeService('apps/b')];
  expect(getWrite(decide({ services, virtualIps, pools })).key).toBe('10.0.9.10');
});

test('a Service of a namespace that the pool does not select keeps no address of the pool back', () => {
  const pools = [
    makePool('pool', { addresses: ['10.0.9.10'], namespaceSelector: { matchLabels: { team: 'web' } } }),
  ];
  const namespaces = [makeNamespace('apps', { team: 'web' }), makeNamespace('other', {})];
  const spec = { type: 'ClusterIP', externalIPs: ['10.0.9.10'] };
  const look = (key: string) => {
    const services = [makeService('apps/a'), makeService(key, { spec })];
    return JSON.stringify(decide({ services, pools, namespaces }));
  };
  expect(look('other/x')).toContain('AddressAllocated');
  expect(look('apps/x')).toContain('PoolExhausted');
});

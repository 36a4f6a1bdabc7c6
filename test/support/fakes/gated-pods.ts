import {
  makeService,
  makeReport,
  type Inventory,
  makeVirtualIp,
  makePool,
  makeNode,
  makeWorld,
  makeEarlySlice,
} from './service-objects.ts';
import type { NodeReport } from '../../../lib/api/node.ts';
import type { Pod } from '../../../lib/api/endpoints.ts';
import type { ClusterView } from '../../../controller/cache/cache.ts';
import { earlySliceKind } from '../../../controller/kinds/endpoints.ts';

/** Of the Service of a pod with a gate. */
export const gatedSelector = { app: 'web' };

export const gatedService = makeService('apps/web', { spec: { selector: gatedSelector } });

/** Of a node that has programmed early EndpointSlices up to a version. */
export function makeEarlyReport(node: string, earlyslices: string): NodeReport {
  return makeReport(node, 99, { programmed: { virtualips: '99', services: '99', earlyslices } });
}

/** A Service with an address, two nodes, and a slice of version 50 that has the pod. */
export function makeGated(pod: Pod, more: Inventory = {}): ClusterView {
  const base = {
    services: [gatedService],
    virtualIps: [makeVirtualIp('10.0.9.10', ['apps/web'])],
    pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.20'] })],
    nodes: [makeNode('w1'), makeNode('w2')],
    pods: [pod],
    reports: [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '49')],
    ...more,
  };
  const step = earlySliceKind.next('apps/web', makeWorld(base));
  return makeWorld(step.does === 'write' ? { earlySlices: [makeEarlySlice(step, '50')], ...base } : base);
}

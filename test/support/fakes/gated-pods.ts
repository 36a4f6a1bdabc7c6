import { earlySlices } from '../../../controller/kinds/early-slices.ts';
import { type World } from '../../../controller/cache/world.ts';
import { type NodeReport } from '../../../lib/services/node-report.ts';
import { type Pod } from '../../../lib/services/pods.ts';
import {
  type Inventory,
  makeEarlySlice,
  makeNode,
  makePool,
  makeReport,
  makeService,
  makeVirtualIp,
  makeWorld,
} from './service-objects.ts';

/** Of the Service of a pod with a gate. */
export const gatedSelector = { app: 'web' };

/** It. */
export const gatedService = makeService('apps/web', { spec: { selector: gatedSelector } });

/** Of a node that has programmed early EndpointSlices up to a version. */
export function makeEarlyReport(node: string, earlyslices: string): NodeReport {
  return makeReport(node, 99, { programmed: { virtualips: '99', services: '99', earlyslices } });
}

/** A Service with an address, two nodes, and a slice of version 50 that has the pod. */
export function makeGated(pod: Pod, more: Inventory = {}): World {
  const base = {
    services: [gatedService],
    virtualIps: [makeVirtualIp('10.0.9.10', ['apps/web'])],
    pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.20'] })],
    nodes: [makeNode('w1'), makeNode('w2')],
    pods: [pod],
    reports: [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '49')],
    ...more,
  };
  const step = earlySlices.next('apps/web', makeWorld(base));
  return makeWorld(step.does === 'write' ? { earlySlices: [makeEarlySlice(step, '50')], ...base } : base);
}

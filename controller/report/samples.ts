import { type MetricDefinition } from '../../lib/telemetry/catalogue.ts';
import { type ControllerState } from './state.ts';

/** What the controller's metrics are; docs/metrics.md has a row for each. */
export const controllerMetrics = {
  vipnat_controller_leading: {
    type: 'gauge',
    labels: [],
    help: 'Whether this controller leads: only the leader writes',
  },
  vipnat_controller_queue_depth: {
    type: 'gauge',
    labels: [],
    help: 'Number of objects that wait for a step; absent while the controller does not lead, like all below',
  },
  vipnat_controller_queue_longest_wait_seconds: {
    type: 'gauge',
    labels: [],
    help: 'How long the object that has waited longest for a step has waited',
  },
  vipnat_controller_steps_total: {
    type: 'counter',
    labels: [],
    help: 'Steps since this controller began to lead, with steps that had nothing to write',
  },
  vipnat_controller_writes_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Writes to the Kubernetes API: done, stale (another was first), late (it led no more), unknown (no answer), refused',
  },
  vipnat_controller_virtual_ips: {
    type: 'gauge',
    labels: ['state'],
    help: 'Number of virtual IPs that Services use, and of virtual IPs that wait to be given again (released)',
  },
  vipnat_controller_nodes_living: {
    type: 'gauge',
    labels: [],
    help: 'Number of nodes whose balancer renews its Lease',
  },
} as const satisfies Record<string, MetricDefinition>;

/** The name of one of them. */
export type ControllerMetric = keyof typeof controllerMetrics;

/** One value of one of them. */
export interface ControllerSample {
  readonly name: ControllerMetric;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** All values as of a state. */
export function listControllerSamples({
  isLeading,
  statistics,
  world,
  writes,
}: ControllerState): ControllerSample[] {
  const one = (name: ControllerMetric, value: number, labels: Record<string, string> = {}) => {
    return { name, labels, value };
  };
  const used = [...(world?.virtualIps.values() ?? [])].filter(({ spec }) => spec.services.length > 0).length;
  return [
    one('vipnat_controller_leading', isLeading ? 1 : 0),
    ...(statistics === null
      ? []
      : [
          one('vipnat_controller_queue_depth', statistics.depth),
          one('vipnat_controller_queue_longest_wait_seconds', statistics.longestWaitMs / 1000),
          one('vipnat_controller_steps_total', statistics.turns),
        ]),
    ...[...writes].map(([result, value]) => one('vipnat_controller_writes_total', value, { result })),
    ...(world === null
      ? []
      : [
          one('vipnat_controller_virtual_ips', used, { state: 'used' }),
          one('vipnat_controller_virtual_ips', world.virtualIps.size - used, { state: 'released' }),
          one('vipnat_controller_nodes_living', world.livingReports.size),
        ]),
  ];
}

import type { PortBalance } from '../../../balancer/services/backends.ts';

/** TCP port 80 of the Service default/web at 10.0.9.10, whose connections go to these; `more` is what shall be otherwise. */
export function makePortBalance(
  backends: PortBalance['backends'],
  more: Partial<PortBalance> = {},
): PortBalance {
  return {
    ...{ family: 'ipv4', service: 'default/web', addresses: ['10.0.9.10'], protocol: 'TCP' },
    ...{ port: 80, method: 'random', affinitySeconds: null, sources: null, keepsClient: false },
    ...{ isHere: true, relay: null, backends, present: backends, draining: [], drainMs: null },
    ...more,
  };
}

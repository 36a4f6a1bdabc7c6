/** Facts of a host with Services for checks of doctor: the balancer runs, and all is well. */
import { makeService, nowMs } from '../fakes/service-objects.ts';
import { serviceChecks } from '../../../cli/doctor/checks/services.ts';
import type { ServicesFacts, HostFacts, ServicesCluster } from '../../../cli/doctor/facts.ts';
import { noServices, makeProcess, tell } from './well-host.ts';
import type { BalancerActivity, HostBalancer } from '../../../lib/api/balancer.ts';
import { makeObjects } from '../fakes/service-view.ts';
import { viewServices } from '../../../cli/services/read-view.ts';
import { planSeats } from '../../../balancer/seats/plan.ts';
import type { Outcome } from '../../../cli/doctor/examine.ts';

/** It waits for whoever serves Services without a class. */
export const classless = makeService('shop/old', {
  metadata: { finalizers: [] },
  spec: { loadBalancerClass: null },
});
/** Those of all checks of Services. */
export const codes = Object.keys(serviceChecks);
/** A host that differs in these. */
export const services = (parts: Partial<ServicesFacts>): Partial<HostFacts> => ({
  services: { ...noServices, ...parts },
});
export const activity: BalancerActivity = {
  ...{ node: 'w1', runDir: '/run/vipnat-lb', mode: 'direct', services: 3, elements: 40 },
  ...{ seats: ['pool/0'], held: ['pool/0'], inUse: [], isFollowing: true, isWatched: true },
  ...{ syncedMsAgo: 1000, behindMs: 0, repairs: 0 },
};
export const running: HostBalancer = {
  ...noServices.host,
  balancer: { version: '0.1.0', pid: 21, since: '2026-11-23T12:00:00.000Z' },
  activity,
  tables: [{ family: 'ipv4', aliveSeconds: 25 }],
  hasConfiguration: true,
};
export const path = '/run/vipnat-lb/keepalived.conf';
export const seatText = `vrrp_instance seat-pool/0 {
  interface eth0
  virtual_router_id 11
  virtual_ipaddress { 10.0.9.10/32 }
  virtual_ipaddress_excluded { 10.0.9.12/32 }
}
`;
export const well: Partial<ServicesFacts> = {
  host: running,
  keepalived: { value: { path, text: seatText, refusal: '' } },
};
export const wellHost: Partial<HostFacts> = {
  ...services(well),
  seatProcesses: { value: [makeProcess('keepalived')] },
};

/** What the API has, for the node w1 with one address in a /24. */
export function makeCluster(parts: Parameters<typeof makeObjects>[0], address = '10.0.9.1'): ServicesCluster {
  const objects = makeObjects(parts);
  const subnets = [{ family: 'ipv4' as const, address, device: 'eth0', prefixLength: 24 }];
  return {
    node: 'w1',
    view: viewServices(objects, nowMs),
    objects,
    plan: planSeats(objects, { node: 'w1', subnets }),
  };
}

/** A host that is well, but for these facts of Services. */
export const wellBut = (parts: Partial<ServicesFacts>): Partial<HostFacts> => ({
  ...wellHost,
  ...services({ ...well, ...parts }),
});

/** A host that is well, with these objects in the API. */
export const inCluster = (parts: Parameters<typeof makeObjects>[0], address?: string): Partial<HostFacts> =>
  wellBut({ cluster: { value: makeCluster(parts, address) }, poolUsers: { value: new Map() } });

/** What is said of Services alone. */
export async function tellServices(changes: Partial<HostFacts>): Promise<readonly Outcome[]> {
  return (await tell(changes)).filter(({ code }) => codes.includes(code));
}

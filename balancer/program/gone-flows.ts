/**
 * Which connections are to be forgotten, because their endpoint is gone: its address will be another pod's.
 * TCP: an endpoint that ends keeps its connections until its EndpointSlice does not have it any more. UDP and SCTP have no
 * connection to keep: a client goes on sending to where it was sent, so it is sent elsewhere as soon as the endpoint takes none.
 */
import { type BalancedFlow } from '../../lib/kernel/port.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type PortBalance } from '../decide/port-balance.ts';

/** The flows of one Service that its balances before allowed, and those now do not. */
export function listGoneFlows(before: readonly PortBalance[], after: readonly PortBalance[]): BalancedFlow[] {
  const kept = new Set(after.flatMap(listFlows).map(describe));
  return before.flatMap(listFlows).filter((flow) => !kept.has(describe(flow)));
}

/**
 * Of connections that the kernel has: those to a port that is balanced, which were sent to an endpoint that it does not have. A life
 * before this one, or kube-proxy, sent them there; their endpoint went while nobody looked.
 */
export function listStrayFlows(
  flows: readonly BalancedFlow[],
  balances: Iterable<readonly PortBalance[]>,
): BalancedFlow[] {
  const allowed = new Set<string>();
  const ports = new Set<string>();
  for (const balance of [...balances].flat()) {
    for (const address of balance.addresses) ports.add(describePort(balance, address));
    for (const flow of listFlows(balance)) allowed.add(describe(flow));
  }
  return flows.filter(
    (flow) => ports.has(`${flow.protocol} ${formatEndpoint(flow.vip)}`) && !allowed.has(describe(flow)),
  );
}

function describePort({ family, protocol, port }: PortBalance, address: string): string {
  return `${protocol.toLowerCase()} ${formatEndpoint({ family, address, port })}`;
}

function listFlows({ family, addresses, protocol, port, backends, present }: PortBalance): BalancedFlow[] {
  const ends = protocol === 'TCP' ? present : backends;
  return addresses.flatMap((address) =>
    ends.map((end) => ({
      protocol: protocol.toLowerCase() as BalancedFlow['protocol'],
      vip: { family, address, port },
      backend: { family, ...end },
    })),
  );
}

function describe({ protocol, vip, backend }: BalancedFlow): string {
  return `${protocol} ${formatEndpoint(vip)} ${formatEndpoint(backend)}`;
}

/**
 * Which connections are to be forgotten, because their endpoint is gone: its address will be another pod's.
 * TCP: an endpoint that ends keeps its connections until its EndpointSlice does not have it any more. UDP and SCTP have no
 * connection to keep: a client goes on sending to where it was sent, so it is sent elsewhere as soon as the endpoint takes none.
 */
import { type BalancedFlow } from '../../lib/kernel/port.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { describeFlow } from '../../lib/kernel/real/describe-flow.ts';
import { type PortBalance } from '../decide/port-balance.ts';

/** The flows of one Service that its balances before allowed, and those now do not. */
export function listGoneFlows(before: readonly PortBalance[], after: readonly PortBalance[]): BalancedFlow[] {
  const kept = new Set(after.flatMap(listFlows).map(describeFlow));
  return before.flatMap(listFlows).filter((flow) => !kept.has(describeFlow(flow)));
}

/**
 * Answers what tells of a connection that the kernel has whether it is to a port that is balanced, and was sent to an endpoint that
 * the port does not have. A life before this one, or kube-proxy, sent it there; the endpoint went while nobody looked.
 */
export function createStrayFilter(
  balances: Iterable<readonly PortBalance[]>,
): (flow: BalancedFlow) => boolean {
  const portToBalance = new Map<string, PortBalance>();
  for (const balance of [...balances].flat()) {
    for (const address of balance.addresses) portToBalance.set(describePort(balance, address), balance);
  }
  return ({ protocol, vip, backend }) => {
    const balance = portToBalance.get(`${protocol} ${formatEndpoint(vip)}`);
    if (balance === undefined) return false;
    return !listEnds(balance).some(
      ({ address, port }) => address === backend.address && port === backend.port,
    );
  };
}

function describePort({ family, protocol, port }: PortBalance, address: string): string {
  return `${protocol.toLowerCase()} ${formatEndpoint({ family, address, port })}`;
}

function listEnds({ protocol, backends, present }: PortBalance): PortBalance['present'] {
  return protocol === 'TCP' ? present : backends;
}

function listFlows(balance: PortBalance): BalancedFlow[] {
  const { family, addresses, protocol, port } = balance;
  return addresses.flatMap((address) =>
    listEnds(balance).map((end) => ({
      protocol: protocol.toLowerCase() as BalancedFlow['protocol'],
      vip: { family, address, port },
      backend: { family, ...end },
    })),
  );
}

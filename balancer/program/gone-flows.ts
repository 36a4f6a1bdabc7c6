/**
 * Which connections are to be forgotten, because their endpoint is gone: its address will be another pod's.
 * TCP and SCTP: an endpoint that ends keeps its connections until its EndpointSlice does not have it any more. UDP has no
 * connection to keep: a client goes on sending to where it was sent, so it is sent elsewhere as soon as the endpoint takes none.
 */
import { type BalancedFlow } from '../../lib/kernel/port.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { describeFlow } from '../../lib/kernel/real/describe-flow.ts';
import { type End, type PortBalance, protocolToNumber } from '../decide/balanced-service.ts';

/** The flows of one Service that its balances before allowed, and those now do not. */
export function listGoneFlows(before: readonly PortBalance[], after: readonly PortBalance[]): BalancedFlow[] {
  const kept = new Set(after.flatMap(listFlows).map(describeFlow));
  return before.flatMap(listFlows).filter((flow) => !kept.has(describeFlow(flow)));
}

/** The flows of one Service to endpoints on nodes that answered before, and do not now. Not of UDP: those are gone. */
export function listSilentFlows(
  before: readonly PortBalance[],
  after: readonly PortBalance[],
): BalancedFlow[] {
  const list = (balances: readonly PortBalance[]) =>
    balances.flatMap((balance) => (balance.protocol === 'UDP' ? [] : toFlows(balance, balance.silent ?? [])));
  const known = new Set(list(before).map(describeFlow));
  return list(after).filter((flow) => !known.has(describeFlow(flow)));
}

/**
 * The flows to ports of one Service that began before these were served, and so go where they asked: to this host, or back to the one that
 * holds the address. Of UDP and SCTP, whose clients go on sending. Those of TCP ended with a refusal.
 */
export function listEarlyFlows(
  before: readonly PortBalance[],
  after: readonly PortBalance[],
): BalancedFlow[] {
  const list = (balances: readonly PortBalance[]) =>
    balances
      .filter(isServed)
      .flatMap((balance) =>
        balance.addresses.flatMap((address) =>
          toFlows(balance, [{ address, port: balance.port }], [address]),
        ),
      );
  const known = new Set(list(before).map(describeFlow));
  return list(after).filter((flow) => !known.has(describeFlow(flow)));
}

/** Whether what comes without a connection goes elsewhere. */
function isServed({ protocol, isHere, backends, relay }: PortBalance): boolean {
  return protocol !== 'TCP' && ((isHere && backends.length > 0) || relay !== null);
}

/** Whether the connections of a flow go where they asked. */
export function isUntranslated({ vip, backend }: BalancedFlow): boolean {
  return vip.address === backend.address && vip.port === backend.port;
}

/**
 * Answers what tells of a connection that the kernel has whether it is to a port that is balanced, and was sent to an endpoint that
 * the port does not have. A life before this one, or kube-proxy, sent it there; the endpoint went while nobody looked. So is one to a
 * port that is not balanced any more: those are the former ones, `ADDRESS . PROTOCOL . PORT` as the table has them. And so is one that goes
 * where it asked, see `listEarlyFlows`.
 */
export function createStrayFilter(
  balances: Iterable<readonly PortBalance[]>,
  formerPorts: ReadonlySet<string>,
): (flow: BalancedFlow) => boolean {
  const portToBalance = new Map<string, PortBalance>();
  for (const balance of [...balances].flat()) {
    for (const address of balance.addresses) portToBalance.set(describePort(balance, address), balance);
  }
  return (flow) => {
    const { protocol, vip, backend } = flow;
    const balance = portToBalance.get(`${protocol} ${formatEndpoint(vip)}`);
    if (isUntranslated(flow)) return balance !== undefined && isServed(balance);
    if (balance === undefined) {
      const number = protocolToNumber.get(protocol.toUpperCase()) ?? '';
      return formerPorts.has(`${vip.address} . ${number} . ${vip.port}`);
    }
    return !listEnds(balance).some(
      ({ address, port }) => address === backend.address && port === backend.port,
    );
  };
}

function describePort({ family, protocol, port }: PortBalance, address: string): string {
  return `${protocol.toLowerCase()} ${formatEndpoint({ family, address, port })}`;
}

function listEnds({ protocol, backends, present }: PortBalance): PortBalance['present'] {
  return protocol === 'UDP' ? backends : present;
}

/** The flows of a port to some ends, at all its addresses or some. */
export function toFlows(
  { family, addresses: all, protocol, port }: PortBalance,
  ends: readonly End[],
  addresses: readonly string[] = all,
): BalancedFlow[] {
  return addresses.flatMap((address) =>
    ends.map((end) => ({
      protocol: protocol.toLowerCase() as BalancedFlow['protocol'],
      vip: { family, address, port },
      backend: { family, address: end.address, port: end.port },
    })),
  );
}

function listFlows(balance: PortBalance): BalancedFlow[] {
  return toFlows(balance, listEnds(balance));
}

import { formatEndpoint, type Endpoint } from '../../address/endpoint.ts';
import { readAddresses } from '../netlink/addresses.ts';
import { type ConnectionChoice, forgetConnection, visitConnections } from '../netlink/connections.ts';
import { type NetlinkClient, withNetlinkClient } from '../netlink/netlink.ts';
import { type BalancedFlow, type FlowSelection, type ForgottenFlow, type SeenFlow } from '../port.ts';
import { describeFlow } from './describe-flow.ts';

/**
 * Deletes the conntrack entries of connections to a VIP that were sent to one backend; answers how many. The next
 * packet of such a connection is for the VIP's holder itself, which knows nothing of it and answers with a reset. A
 * first packet that is sent again is balanced anew. By the original destination, so nobody else's connections to this backend are met.
 */
export async function deleteFlows({ vip, backend, isHalfOpen }: FlowSelection): Promise<number> {
  const text = formatEndpoint(backend);
  const isChosen = (flow: SeenFlow) =>
    formatEndpoint(flow.backend) === text && !(isHalfOpen && flow.isAnswered);
  const forgotten = await withNetlinkClient('netfilter', (client) => forgetFlows(client, vip, isChosen));
  return forgotten.reduce((sum, { count }) => sum + count, 0);
}

/**
 * How many established connections to a VIP each backend has, by its text, see formatEndpoint. Where the VIP is elsewhere, only this host's
 * own can go on here. Those of others end without a word to this host, whose kernel keeps them for up to five days.
 */
export async function countFlows(vip: Endpoint): Promise<ReadonlyMap<string, number>> {
  const own = new Set((await readAddresses()).map(({ address }) => address));
  const isHere = own.has(vip.address);
  const backendToCount = new Map<string, number>();
  await withNetlinkClient('netfilter', (client) =>
    visitConnections(client, vip, ({ backend, isEstablished }, _, readClient) => {
      if (!isEstablished || !(isHere || own.has(readClient() ?? ''))) return;
      const text = formatEndpoint(backend);
      backendToCount.set(text, (backendToCount.get(text) ?? 0) + 1);
    }),
  );
  return backendToCount;
}

/** Has the kernel forget the chosen ones of these connections; answers how many there were of each flow. */
export async function forgetFlows(
  client: NetlinkClient,
  choice: ConnectionChoice,
  isChosen: (flow: SeenFlow) => boolean,
): Promise<ForgottenFlow[]> {
  // Keys alone are kept: of a sweep they can be hundreds of thousands.
  const textToChosen = new Map<string, { readonly flow: BalancedFlow; readonly keys: Buffer[] }>();
  await visitConnections(client, choice, (seen, renderKey) => {
    if (!isChosen(seen)) return;
    const text = describeFlow(seen);
    const { protocol, vip, backend } = seen;
    const chosen = textToChosen.get(text) ?? { flow: { protocol, vip, backend }, keys: [] };
    textToChosen.set(text, chosen);
    chosen.keys.push(renderKey());
  });
  const forgotten: ForgottenFlow[] = [];
  for (const { flow, keys } of textToChosen.values()) {
    let count = 0;
    for (const key of keys) if (await forgetConnection(client, key)) count += 1;
    if (count > 0) forgotten.push({ ...flow, count });
  }
  return forgotten;
}

import { access } from 'node:fs/promises';
import { locateSeatFiles } from '../../lib/keepalived/seat-files.ts';
import { isUsable, listSubnets } from '../../lib/keepalived/subnets.ts';
import { readPlacedAddresses } from '../../lib/kernel/netlink/addresses.ts';
import { readOnLinkNetworks } from '../../lib/kernel/netlink/on-link-routes.ts';
import { listAlone } from './place-address.ts';
import { planSeats, type SeatsPlan } from './plan-seats.ts';

/** What the API has of seats. */
export type NodeObjects = Parameters<typeof planSeats>[0];

/** The seats that a node may hold, by the networks of this host. Rejects with NETLINK_FAILED. */
export async function planNodeSeats(objects: NodeObjects, node: string): Promise<SeatsPlan> {
  const addresses = await readPlacedAddresses();
  const networks = { subnets: listSubnets(addresses), alone: listAlone(addresses, new Set()) };
  const onLink = (await readOnLinkNetworks()).filter(isUsable);
  return planSeats(objects, { node, ...networks, onLink });
}

/** Whether keepalived's configuration is in the folder that it shares with the balancer. */
export async function hasSeatConfiguration(runDir: string): Promise<boolean> {
  return await access(locateSeatFiles(runDir).file).then(
    () => true,
    () => false,
  );
}

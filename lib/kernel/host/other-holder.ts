import { type Clock, sleep } from '../../control/clock.ts';
import {
  askNeighbours,
  forgetNeighbours,
  type NeighbourQuestion,
  readNeighbours,
  readOwnLinks,
} from './neighbours.ts';

/** When the neighbour table is looked at, in milliseconds after the question. The kernel asks again after a second, which is not waited for. */
const looksMs = [30, 200, 900];

/** Another host that answers for an address. */
export interface OtherHolder {
  readonly mac: string;
  /** The interface that heard it. It is not the address's own where that one is keepalived's (`OwnLinks.toAsked`). */
  readonly device: string;
}

/**
 * Asks an Ethernet once, by one ARP request, which other host has an IPv4 address. An IPv6 address it asks for by neighbour
 * discovery, and never hears an answer for one of this host. Answers null when none answers within 0.9 s. Leaves nothing in
 * the neighbour table. Takes root. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED.
 */
export async function askOtherHolder(
  { family, address, device: ownDevice }: NeighbourQuestion,
  clock: Clock,
): Promise<OtherHolder | null> {
  const own = await readOwnLinks();
  const device = own.toAsked(ownDevice);
  const question = { family, address, device };
  const askedAt = clock.now();
  try {
    await askNeighbours([question]);
    for (const lookMs of looksMs) {
      await sleep(clock, askedAt + lookMs - clock.now());
      const mac = await readAnswer(question);
      if (mac !== null) return own.macs.has(mac) ? null : { mac, device };
    }
    return null;
  } finally {
    await forgetNeighbours([question]);
  }
}

/** One that a person has set is no answer. */
async function readAnswer({ address, device }: NeighbourQuestion): Promise<string | null> {
  const entry = (await readNeighbours()).find((one) => one.address === address && one.device === device);
  return entry?.state === 'answered' ? entry.mac : null;
}

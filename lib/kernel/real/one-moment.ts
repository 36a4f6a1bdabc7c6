import { type NetlinkQuestioner } from '../netlink/netlink.ts';
import { readGeneration } from '../watch/generation.ts';

/** kube-proxy writes once a second: a host where a few milliseconds are never quiet in so many tries is no host of ours. */
const maxTries = 10;

/**
 * Reads something of nftables until it is known to be as it was at one moment: no commit came meanwhile, or two readings are alike.
 * `describe` says all that a change of it would change, with handles: these never come again, so what neither reading saw change did
 * not change between them. Null where it did not hold still. Rejects as the reading and readGeneration do.
 */
export async function readOneMoment<T>(
  client: NetlinkQuestioner,
  read: () => Promise<T>,
  describe: (seen: T) => string,
): Promise<T | null> {
  let before: string | null = null;
  for (let attempt = 0; attempt < maxTries; attempt += 1) {
    const generation = await readGeneration(client);
    const now = await read();
    if ((await readGeneration(client)) === generation) return now;
    const description = describe(now);
    if (description === before) return now;
    before = description;
  }
  return null;
}

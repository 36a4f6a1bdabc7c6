/** Prints the nftables generation of the network namespace it runs in: the number of transactions it has seen. */
import { readGeneration } from '../../lib/kernel/watch/generation.ts';
import { createNetlinkClient } from '../../lib/kernel/netlink/netlink.ts';

const client = createNetlinkClient('netfilter');
process.stdout.write(String(await readGeneration(client)));
client.close();

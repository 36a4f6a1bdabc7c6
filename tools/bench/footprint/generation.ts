/** Prints the nftables generation of the network namespace it runs in: the number of transactions it has seen. */
import { createNetlinkClient, readGeneration } from '../../../lib/kernel/netlink.ts';

const client = createNetlinkClient('netfilter');
process.stdout.write(String(await readGeneration(client)));
client.close();

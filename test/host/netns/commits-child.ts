/** Commits to a table of its own so many times a second, until it is ended. For commits.full.test.ts. Prints a line once it has begun. */
import { renderAttribute, createNetlinkClient } from '../../../lib/kernel/netlink.ts';
import { renderFamily } from '../../../lib/kernel/nft-netlink.ts';

// linux/netfilter/nf_tables.h, NFNL_SUBSYS_NFTABLES
const subsystem = 10;
const types = { table: 0x0a00, makeChain: 0x0a03, deleteChain: 0x0a05 };
const tableName = renderAttribute(1, Buffer.from('stranger\0'));
const chainName = renderAttribute(3, Buffer.from('stranger\0'));
const perSecond = Number(process.argv[2]);
const client = createNetlinkClient('netfilter');
await commit(types.table, tableName);
process.stdout.write('begun\n');
for (const started = performance.now(), count = { done: 0 }; ; count.done += 1) {
  const type = count.done % 2 === 0 ? types.makeChain : types.deleteChain;
  await commit(type, Buffer.concat([tableName, chainName]));
  const waitMs = started + ((count.done + 1) * 1000) / perSecond - performance.now();
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, waitMs)));
}

async function commit(type: number, names: Buffer): Promise<void> {
  const payload = Buffer.concat([renderFamily('ip'), names]);
  const orders = [{ type, payload, isCreation: type !== types.deleteChain }];
  await client.commit({ subsystem, orders, subject: 'a stranger' });
}

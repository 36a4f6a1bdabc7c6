import { type Cluster } from '../../support/network/cluster.ts';
import { masters } from '../../support/network/layout.ts';
import { pickCounter } from '../../support/network/netstat.ts';

/** What the kernels of a cluster have lost since it is there. */
export interface Losses {
  /** First packets of connections that the outside client sent again, as nobody answered in time. */
  readonly resentSyns: number;
  /** First packets that apiservers were too slow to take: their queues were full. */
  readonly refusedSyns: number;
  /** Packets that m1's connection table dropped: it was full, or an entry could not be made. */
  readonly conntrackDrops: number;
}

/** Counts them, as `nstat` and `conntrack --stats` do. */
export async function countLosses(cluster: Cluster): Promise<Losses> {
  const read = async (machine: string, file: string) => await cluster.shell(machine, `cat /proc/net/${file}`);
  const refused = await Promise.all(
    masters.map(async ({ name }) => pickCounter(await read(name, 'netstat'), 'ListenDrops')),
  );
  const table = (await read('m1', 'stat/nf_conntrack')).split('\n');
  return {
    resentSyns: pickCounter(await read('client', 'netstat'), 'TCPSynRetrans'),
    refusedSyns: refused.reduce((total, count) => total + count, 0),
    conntrackDrops: sumColumn(table, 'drop') + sumColumn(table, 'insert_failed'),
  };
}

/** One line of hexadecimal numbers for each processor, below their names. */
function sumColumn([heading = '', ...rows]: readonly string[], name: string): number {
  const column = heading.trim().split(/\s+/).indexOf(name);
  return rows
    .filter((row) => row !== '')
    .reduce((total, row) => total + parseInt(row.trim().split(/\s+/)[column] ?? '', 16), 0);
}

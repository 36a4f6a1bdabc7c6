import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { parseRange, parseAddress, contains } from '../../../lib/net.ts';

const tables = ['ip vipnat-lb', 'ip6 vipnat-lb'];

/** What nodes still have of Services, a phrase for each: tables of the balancer, addresses of the pool, programs. */
export async function findTraces(lab: NodeLab, nodes: readonly string[], pool: string): Promise<string[]> {
  const found = await Promise.all(
    nodes.map(async (node) => {
      const { stdout } = await lab
        .machine(node)
        .run(['sh', '-c', 'nft list tables; ip -o address show; ps -eo args']);
      return listTraces(stdout, pool).map((trace) => `${node}: ${trace}`);
    }),
  );
  return found.flat();
}

/** The traces in what the three programs print. Pure. */
export function listTraces(text: string, pool: string): string[] {
  const range = parseRange(pool);
  const isOfPool = (word: string) => {
    const address = parseAddress(word);
    return address !== null && range !== null && contains(range, address);
  };
  const addresses = [...text.matchAll(/ inet6? (\S+)\//g)].map(([, address = '']) => address);
  const programs = [/\/vipnat balancer|vipnat\.js balancer/, /keepalived .*vipnat-lb/];
  return [
    ...tables.filter((table) => text.includes(`table ${table}\n`)).map((table) => `table ${table}`),
    ...addresses.filter(isOfPool).map((address) => `address ${address}`),
    ...text.split('\n').filter((line) => programs.some((program) => program.test(line))),
  ];
}

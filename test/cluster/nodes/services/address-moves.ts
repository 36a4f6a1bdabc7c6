import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { once } from 'node:events';

/** Prints what becomes of addresses, until its standard input ends. */
const script = `ip -oneline -4 monitor address &
echo listens
read -r _ || true
kill $!
wait`;

/** As ip of iproute2 6.1 prints it. */
const line = /^(Deleted )?\d+: \S+ +inet (\S+)\/\d+ /;

/** What nodes gave up and got of addresses, as their kernels say it. */
export class AddressMoves {
  readonly #heard: ReadonlyMap<string, () => Promise<string>>;

  private constructor(heard: ReadonlyMap<string, () => Promise<string>>) {
    this.#heard = heard;
  }

  static async listen(lab: NodeLab, nodes: readonly string[]): Promise<AddressMoves> {
    const heard = new Map<string, () => Promise<string>>();
    for (const node of nodes) {
      const child = lab.machine(node).spawn(['sh', '-c', script]);
      const closed = once(child, 'close');
      let text = '';
      const begun = new Promise((resolve) => child.stdout?.setEncoding('utf8').once('data', resolve));
      child.stdout?.on('data', (more: string) => (text += more));
      await begun;
      heard.set(node, async () => {
        child.stdin?.end();
        await closed;
        return text;
      });
    }
    return new AddressMoves(heard);
  }

  /** Ends that. Answers how often each node gave an address up, by both their names; only those that are asked for. */
  async end(addresses: readonly string[]): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const [node, hear] of this.#heard) {
      for (const each of (await hear()).split('\n')) {
        const [, deleted, address = ''] = line.exec(each) ?? [];
        if (deleted === undefined || !addresses.includes(address)) continue;
        const key = `${address} on ${node}`;
        counts[key] = (counts[key] ?? 0) + 1;
      }
    }
    return counts;
  }
}

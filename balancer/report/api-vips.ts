/**
 * Finds the virtual IPs of the Kubernetes API on this node: rules of `vipnat run` name them, also while it does not run. The balancer reads
 * iptables' tables `filter` anyway, and these have a rule for each.
 */
import { families, type Family } from '../../lib/address/address.ts';
import { ownTable } from '../../lib/kernel/netlink/own-table.ts';
import { type SaveOutput } from '../../lib/kernel/port.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { forwardChain, isOwnChain } from '../../lib/netfilter/iptables/identity.ts';
import { parseSave } from '../../lib/netfilter/iptables/parse.ts';
import { readVip } from '../../lib/netfilter/iptables/read-vips.ts';
import { parseNftTable } from '../../lib/netfilter/nftables/parse.ts';
import { readVips } from '../../lib/netfilter/nftables/read-vips.ts';
import { maxApiVips } from '../../lib/services/node-report.ts';

/** Remembers what was read last, place by place. A place that cannot be read keeps what it had. */
export class ApiVips {
  readonly #kernel: BalancerKernel;
  readonly #onChange: () => void;
  /** Tables to the addresses that their rules name. */
  readonly #placeToAddresses = new Map<string, readonly string[]>();

  /** `onChange` is called when `addresses` differ from before. */
  constructor(kernel: BalancerKernel, onChange: () => void) {
    this.#kernel = kernel;
    this.#onChange = onChange;
  }

  /** Their addresses, as canonical text; sorted, and no more than a report has. */
  get addresses(): readonly string[] {
    const all = [...this.#placeToAddresses.values()].flat();
    return [...new Set(all)].sort().slice(0, maxApiVips);
  }

  /** The same kernel; each table `filter` that is read is looked through, and then the agent's own table of nftables. */
  get kernel(): BalancerKernel {
    return {
      ...this.#kernel,
      readFilter: async (family, dialect, chains) => {
        const output = await this.#kernel.readFilter(family, dialect, [...chains, forwardChain]);
        this.#note(`${family} ${dialect}`, output === null ? [] : listFiltered(output));
        if (dialect === 'nft') await this.#readOwnTables();
        return output;
      },
    };
  }

  async #readOwnTables(): Promise<void> {
    try {
      const handles = await this.#kernel.readHandles(ownTable);
      for (const family of families) {
        const isThere = handles[family] !== null;
        this.#note(`${family} nftables`, isThere ? await this.#listOwn(family) : []);
      }
    } catch {
      // What fails here fails where the tables are written, and is told there.
    }
  }

  async #listOwn(family: Family): Promise<string[]> {
    const text = await this.#kernel.listOwnTable(family);
    return readVips(parseNftTable({ family, text })).map(({ address }) => address);
  }

  #note(place: string, addresses: readonly string[]): void {
    const before = this.addresses.join();
    this.#placeToAddresses.set(place, addresses);
    if (this.addresses.join() !== before) this.#onChange();
  }
}

function listFiltered(output: SaveOutput): string[] {
  const chains = [...(parseSave(output).tables.get('filter') ?? [])].filter(([name]) => isOwnChain(name));
  return chains.flatMap(([, rules]) => rules.flatMap((rule) => readVip(rule)?.address ?? []));
}

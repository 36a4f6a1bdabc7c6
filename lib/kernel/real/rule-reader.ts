import { type Family } from '../../address/address.ts';
import { attempt, type Attempt } from './attempt.ts';
import { FewChains } from './few-chains.ts';
import { hasIptables } from './iptables.ts';
import { readIptables } from './iptables-tables.ts';
import { readNftProxy } from './nft-proxy.ts';
import { readNftTable } from './nft-table.ts';
import { surveyRules, unsurveyed } from './survey.ts';
import {
  type KernelQuery,
  type KernelReading,
  type NftProxyOutput,
  type NftTableOutput,
  type SaveOutput,
} from '../port.ts';
import { settleAll } from '../tools/settle.ts';
import { type Toolbox } from '../tools/toolbox.ts';

/** What a reading tells of rules. */
export type RulesRead = Pick<KernelReading, 'iptables' | 'nftTables' | 'nftProxies' | 'unread'>;

/** Reads rules through the tools, and remembers what they printed of chains that stay as they are. */
export class RuleReader {
  readonly #toolbox: Toolbox;
  readonly #limitMs: number;
  readonly #few: Readonly<Record<Family, FewChains>>;

  /** Each tool may take `limitMs`. */
  constructor(toolbox: Toolbox, limitMs: number) {
    this.#toolbox = toolbox;
    this.#limitMs = limitMs;
    this.#few = { ipv4: new FewChains(toolbox), ipv6: new FewChains(toolbox) };
  }

  /** Rejects with nothing that a tool fails for: that is unread. */
  async read(query: KernelQuery): Promise<RulesRead> {
    const read = await settleAll(query.families.map((family) => this.#readFamily(family, query)));
    const parts = [
      read.flatMap(({ saves }) => saves),
      read.map(({ table }) => table),
      read.map(({ proxy }) => proxy),
    ] as const;
    const [saves, tables, proxies] = parts;
    return {
      iptables: listFound(saves),
      nftTables: listFound(tables),
      nftProxies: listFound(proxies),
      unread: parts.flatMap((attempts) => attempts.flatMap(({ unread }) => unread)),
    };
  }

  async #readFamily(
    family: Family,
    { dialects, nftServiceChain: serviceChain, chains: selection }: KernelQuery,
  ): Promise<FamilyRules> {
    const { isLarge, hasTable } = selection === undefined ? unsurveyed : await surveyRules(family);
    const limitMs = this.#limitMs;
    const source = { family, limitMs };
    const quick =
      isLarge && selection !== undefined ? () => this.#few[family].read({ ...source, selection }) : undefined;
    const saves = dialects
      .filter(() => hasIptables(family))
      .map((dialect) =>
        readIptables(this.#toolbox, { ...source, dialect }, dialect === 'nft' ? quick : undefined),
      );
    const where = { family, dialect: 'nftables' } as const;
    const table = attempt(readNftTable(family, limitMs, hasTable.vipnat), { ...where, tables: ['vipnat'] });
    const proxy = attempt(hasTable['kube-proxy'] ? readNftProxy({ ...source, serviceChain }) : nothing, {
      ...where,
      tables: ['kube-proxy'],
    });
    // One that fails must not leave the others' children running when we answer.
    await Promise.allSettled([...saves, table, proxy]);
    return { saves: await Promise.all(saves), table: await table, proxy: await proxy };
  }
}

const nothing = Promise.resolve(null);

interface FamilyRules {
  readonly saves: readonly Attempt<SaveOutput | null>[];
  readonly table: Attempt<NftTableOutput | null>;
  readonly proxy: Attempt<NftProxyOutput | null>;
}

function listFound<T>(attempts: readonly Attempt<T | null>[]): T[] {
  return attempts.flatMap(({ found }) => (found === null ? [] : [found]));
}

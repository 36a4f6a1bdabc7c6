/**
 * Reads a few chains of iptables-nft, on a host that has many rules.
 *
 * Goal: a look takes milliseconds and ends, however many rules others have, and however often they write.
 * Tension: only iptables-nft knows what its rules mean. iptables-nft-save reads all tables, and begins again at each commit of anybody
 * (1.8.9): with 17,000 rules and seven commits a second it never ends.
 * Compromise: netlink tells the chains, and the bytes of their rules, in a moment. The same bytes mean the same: what iptables-nft has printed
 * of them is remembered. A chain that says something new is listed alone, which takes milliseconds, and counts if the chain did not
 * change meanwhile.
 */
import { type Family } from '../../address/address.ts';
import { type ChainSelection, type SaveOutput } from '../port.ts';
import { type Toolbox } from '../tools/toolbox.ts';
import {
  type ChainSnapshot,
  type RuleClients,
  type SeenChain,
  takeSnapshot,
  withRuleClients,
} from './chain-snapshot.ts';
import { type ChainText, listChainTexts, type ListTools, saveChainTexts } from './chain-texts.ts';

/** Which chains to read, and for how long each tool may take. */
export interface ChainSource {
  readonly family: Family;
  readonly selection: ChainSelection;
  readonly limitMs: number;
}

/** Others may change a chain while it is listed; so often in a row they do it all the time. */
const maxRounds = 5;

/** A run of iptables-nft for one chain takes 4 ms, and iptables-nft-save 0.03 ms for each rule (1.8.9). */
const rulesWorthOneRun = 150;

/** Then it begins again and again, and chains are listed one by one instead. */
const saveLimitMs = 2000;

/** What iptables-nft printed of the chains of one family in the last reading. */
export class FewChains {
  readonly #toolbox: Toolbox;
  #texts: ReadonlyMap<string, ChainText> = new Map();

  constructor(toolbox: Toolbox) {
    this.#toolbox = toolbox;
  }

  /**
   * The chains as they were at one moment, in the form of iptables-nft-save. Null where they cannot be read so: without iptables-nft, where
   * it fails for one of them, or where they change all the time. Rejects as execTool and netlink do.
   */
  async read(source: ChainSource): Promise<SaveOutput | null> {
    const { family } = source;
    const list = await this.#toolbox.find(family, 'nft');
    const save = await this.#toolbox.find(family, 'nft', 'save');
    if (list === null || save === null) return null;
    return await withRuleClients((clients) => this.#readWith(clients, source, { list, save }));
  }

  async #readWith(clients: RuleClients, source: ChainSource, tools: ListTools): Promise<SaveOutput | null> {
    const { family, selection } = source;
    for (let round = 0; round < maxRounds; round += 1) {
      const seen = await takeSnapshot(clients, family, selection);
      if (seen === null) return null;
      const unknown = seen.chains.filter((chain) => chain.ruleCount > 0 && !this.#texts.has(toKey(chain)));
      if (unknown.length === 0) {
        this.#forgetOthers(seen.chains);
        return render(family, seen, this.#texts);
      }
      const printed = await listTexts(tools, seen, unknown, source);
      const after = await takeSnapshot(clients, family, selection);
      const unchanged = unknown.filter((chain) => after !== null && hasState(after, chain));
      // Nobody has changed it, and iptables-nft cannot list it all the same.
      if (unchanged.some((chain) => !printed.has(chain))) return null;
      this.#texts = new Map([
        ...this.#texts,
        ...unchanged.map((chain) => [toKey(chain), printed.get(chain) ?? null] as const),
      ]);
    }
    return null;
  }

  #forgetOthers(chains: readonly SeenChain[]): void {
    const keys = new Set(chains.map(toKey));
    this.#texts = new Map([...this.#texts].filter(([key]) => keys.has(key)));
  }
}

/** Those that iptables-nft-save tells sooner than so many runs, by one run of it. */
async function listTexts(
  tools: ListTools,
  { unlistedRules, chains }: ChainSnapshot,
  unknown: readonly SeenChain[],
  { selection, limitMs }: ChainSource,
): Promise<Map<SeenChain, ChainText>> {
  const rules = unlistedRules + chains.reduce((sum, { ruleCount }) => sum + ruleCount, 0);
  // It reads all tables, and nothing is known of those that are not wanted.
  const isSaveShorter = selection.tables === undefined && rules < unknown.length * rulesWorthOneRun;
  const saved = isSaveShorter
    ? await saveChainTexts(tools, unknown, { limitMs: Math.min(limitMs, saveLimitMs) }).catch(() => new Map())
    : new Map<SeenChain, ChainText>();
  const rest = unknown.filter((chain) => !saved.has(chain));
  return new Map([...saved, ...(await listChainTexts(tools, rest, { limitMs }))]);
}

function toKey({ table, name, digest }: SeenChain): string {
  return `${table} ${name} ${digest}`;
}

function hasState({ chains }: ChainSnapshot, chain: SeenChain): boolean {
  return chains.some((one) => toKey(one) === toKey(chain) && one.handles === chain.handles);
}

function render(
  family: Family,
  { tables, chains, unlistedRules }: ChainSnapshot,
  texts: ReadonlyMap<string, ChainText>,
): SaveOutput {
  const blocks = tables.map((table) => {
    const own = chains.filter((chain) => chain.table === table);
    if (own.some((chain) => texts.get(toKey(chain)) === null)) {
      return `# Table \`${table}' is incompatible, use 'nft' tool.\n`;
    }
    const declared = own.map(({ name, policy }) => `:${name} ${policy ?? '-'} [0:0]`);
    const rules = own.map((chain) => texts.get(toKey(chain)) ?? '').filter((text) => text !== '');
    return `${[`*${table}`, ...declared, ...rules, 'COMMIT'].join('\n')}\n`;
  });
  return { family, dialect: 'nft', text: blocks.join(''), unlistedRules };
}

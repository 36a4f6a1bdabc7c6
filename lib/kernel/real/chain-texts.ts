import { execTool } from '../tools/exec.ts';
import { splitLines } from '../tools/save-lines.ts';
import { settleAll } from '../tools/settle.ts';
import { type SeenChain } from './chain-snapshot.ts';

/** What iptables-nft prints of a chain's rules; null of one that has rules which it cannot show. */
export type ChainText = string | null;

/** The names of the tools of one family. */
export interface ListTools {
  readonly list: string;
  readonly save: string;
}

/** A listing that does not end is given up. */
interface ListLimit {
  readonly limitMs: number;
}

/** A few at a time: the host has other work, and each is done in milliseconds. */
const listsAtOnce = 4;

/**
 * What one run of iptables-nft for each chain prints; without the chains for which it failed, as for one that is gone. A run takes some
 * milliseconds, and as long as its chain has rules. Rejects as execTool does.
 */
export async function listChainTexts(
  { list }: ListTools,
  chains: readonly SeenChain[],
  { limitMs }: ListLimit,
): Promise<Map<SeenChain, ChainText>> {
  const texts = new Map<SeenChain, ChainText>();
  for (let first = 0; first < chains.length; first += listsAtOnce) {
    const batch = chains.slice(first, first + listsAtOnce);
    const printed = await settleAll(batch.map((chain) => listChainText(list, chain, limitMs)));
    for (const [at, chain] of batch.entries()) {
      const text = printed[at];
      if (text !== undefined) texts.set(chain, text);
    }
  }
  return texts;
}

async function listChainText(
  tool: string,
  { table, name, ruleCount }: SeenChain,
  limitMs: number,
): Promise<ChainText | undefined> {
  const words = ['-t', table, '-S', name];
  const { exitCode, stdout, stderr } = await execTool({ tool, arguments: words, limitMs, isPatient: true });
  // iptables 1.8.9, also of a chain that is gone: "chain `INPUT' in table `nat' is incompatible, use 'nft' tool."
  if (exitCode !== 0) return stderr.includes("is incompatible, use 'nft' tool") ? null : undefined;
  const rules = [...splitLines(stdout)].filter((line) => line.startsWith(`-A ${name} `));
  return rules.length === ruleCount ? rules.join('\n') : undefined;
}

/** What one run of iptables-nft-save prints of the chains; without those of a table that it cannot show, and of chains that changed meanwhile. Rejects alike. */
export async function saveChainTexts(
  { save }: ListTools,
  chains: readonly SeenChain[],
  { limitMs }: ListLimit,
): Promise<Map<SeenChain, ChainText>> {
  const { exitCode, stdout } = await execTool({ tool: save, arguments: [], limitMs, isPatient: true });
  if (exitCode !== 0) return new Map();
  const placeToRules = partRules(stdout);
  return new Map(
    chains.flatMap((chain) => {
      const rules = placeToRules.get(`${chain.table} ${chain.name}`) ?? [];
      return rules.length === chain.ruleCount ? [[chain, rules.join('\n')] as const] : [];
    }),
  );
}

/** Table and chain to the chain's rules. */
function partRules(text: string): Map<string, string[]> {
  const placeToRules = new Map<string, string[]>();
  let table = '';
  for (const line of splitLines(text)) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain] = /^-A (\S+)/.exec(line) ?? [];
    if (chain === undefined) continue;
    const place = `${table} ${chain}`;
    const rules = placeToRules.get(place);
    if (rules === undefined) placeToRules.set(place, [line]);
    else rules.push(line);
  }
  return placeToRules;
}

/** What save tools print, read without any help of the product's own parser: it is what is tested. */

/** A chain as a save tool prints it. */
export interface PrintedChain {
  readonly table: string;
  readonly chain: string;
  /** `-` for a chain that is not the kernel's. */
  readonly policy: string;
  /** Without their `-A CHAIN`. */
  readonly rules: readonly string[];
}

export function readChains(save: string): PrintedChain[] {
  const chains: (PrintedChain & { rules: string[] })[] = [];
  let table = '';
  for (const line of save.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
    if (chain !== '') chains.push({ table, chain, policy, rules: [] });
    const [, owner, rule = ''] = /^-A (\S+) ?(.*)$/.exec(line) ?? [];
    chains.find((known) => known.table === table && known.chain === owner)?.rules.push(rule);
  }
  return chains;
}

export function isOurChain(name: string): boolean {
  return /^VIPNAT(?:-|$)/.test(name);
}

/** Whether a rule is vipnat's: its first comment says so, or it leads into a chain of ours. */
export function isOurRule(rule: string): boolean {
  const [, comment = ''] = /--comment (?:"((?:[^"\\]|\\.)*)"|\S+)/.exec(rule) ?? [];
  const unquoted = rule.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""');
  return comment.startsWith('vipnat:') || / -[jg] VIPNAT(?:-\S*)?(?: |$)/.test(` ${unquoted}`);
}

/** What of these is not ours: others' chains, with others' rules. */
export function listForeignChains(chains: readonly PrintedChain[]): PrintedChain[] {
  return chains
    .filter(({ chain }) => !isOurChain(chain))
    .map((printed) => ({ ...printed, rules: printed.rules.filter((rule) => !isOurRule(rule)) }));
}

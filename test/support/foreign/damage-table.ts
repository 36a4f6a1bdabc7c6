/** What somebody else does to rules in vipnat's own table of nftables; see damage.ts. */
import { type tidyDamages } from './damage.ts';

interface TableRule {
  /** Its family and table: `ip vipnat`. */
  readonly table: string;
  readonly chain: string;
  /** As nft prints it. */
  readonly rule: string;
  readonly handle: string;
}

/** All rules in what `nft --handle list table` prints. */
export function findTableRules(table: string, listed: string): TableRule[] {
  let chain = '';
  const rules: TableRule[] = [];
  for (const line of listed.split('\n')) {
    chain = /^\tchain (\S+) \{/.exec(line)?.[1] ?? chain;
    const [, rule, handle] = /^\t\t(.*) # handle (\d+)$/.exec(line) ?? [];
    if (rule !== undefined && handle !== undefined) rules.push({ table, chain, rule, handle });
  }
  return rules;
}

/** A script for nft. It fails whole, and does nothing, when the rule is not there any more. */
export function renderTableDamage(
  { table, chain, rule, handle }: TableRule,
  damage: (typeof tidyDamages)[number],
): string {
  const place = `${table} ${chain}`;
  const damageToScript = {
    delete: `delete rule ${place} handle ${handle}`,
    duplicate: `insert rule ${place} ${rule}`,
    'move to the end': `delete rule ${place} handle ${handle}\nadd rule ${place} ${rule}`,
    edit: `replace rule ${place} handle ${handle} ${editTableRule(rule)}`,
    'put a rule before': `insert rule ${place} position ${handle} return`,
    'flush its chain': `flush chain ${place}`,
  } satisfies Record<typeof damage, string>;
  return `${damageToScript[damage]}\n`;
}

/** Another port; a rule without one is made one for another protocol. */
function editTableRule(rule: string): string {
  return rule.includes('6443') ? rule.replace(/6443/, '6444') : `meta l4proto udp ${rule}`;
}

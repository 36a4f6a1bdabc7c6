import { type Machine } from '../../../../lab/machines/machine.ts';

/** A rule of vipnat's where a stranger finds it. */
export interface OwnRule {
  readonly dialect: 'nft' | 'legacy' | 'table';
  readonly table: string;
  readonly chain: string;
  /** As iptables-save prints it, without the chain; as nft prints it, in vipnat's own table. */
  readonly text: string;
  /** By which nft knows it; none elsewhere. */
  readonly handle?: string;
}

/** What a stranger can do to a rule of vipnat's. */
export const tamperings = ['deleted', 'edited', 'moved', 'doubled', 'chain emptied'] as const;

/** One of them. */
export type Tampering = (typeof tamperings)[number];

const ownTable = 'ip vipnat';

/** All rules of vipnat's that lead connections, in every backend: its chains' and its hooks. */
export async function listOwnRules(machine: Machine): Promise<OwnRule[]> {
  const [nft, legacy, table] = await Promise.all([
    machine.run(['iptables-nft-save']),
    machine.run(['iptables-legacy-save']),
    machine.run(['nft', '-a', 'list', 'table', 'ip', 'vipnat']),
  ]);
  return [...readSave('nft', nft.stdout), ...readSave('legacy', legacy.stdout), ...readTable(table.stdout)];
}

/** Does it. A rule that is gone by now is left alone: somebody was faster. */
export async function tamper(machine: Machine, rule: OwnRule, how: Tampering): Promise<void> {
  const script = rule.dialect === 'table' ? renderNft(rule, how) : renderIptables(rule, how);
  await machine.run(['sh', '-c', script]);
}

function readSave(dialect: 'nft' | 'legacy', saved: string): OwnRule[] {
  let table = '';
  const rules: OwnRule[] = [];
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain = '', text = ''] = /^-A (\S+) (.*VIPNAT.*|.*vipnat:.*)$/.exec(line) ?? [];
    if (chain !== '') rules.push({ dialect, table, chain, text });
  }
  return rules;
}

function readTable(listed: string): OwnRule[] {
  let chain = '';
  const rules: OwnRule[] = [];
  for (const line of listed.split('\n')) {
    chain = /^\tchain (\S+) \{/.exec(line)?.[1] ?? chain;
    const [, text, handle] = /^\t\t(.*) # handle (\d+)$/.exec(line) ?? [];
    if (text !== undefined && handle !== undefined) {
      rules.push({ dialect: 'table', table: ownTable, chain, text, handle });
    }
  }
  return rules;
}

function renderIptables({ dialect: backend, table, chain, text }: OwnRule, how: Tampering): string {
  const tool = `iptables-${backend} -t ${table}`;
  switch (how) {
    case 'deleted':
      return `${tool} -D ${chain} ${text}`;
    case 'edited':
      return `${tool} -D ${chain} ${text} && ${tool} -I ${chain} 1 ${edit(text)}`;
    case 'moved':
      return `${tool} -D ${chain} ${text} && ${tool} -A ${chain} ${text}`;
    case 'doubled':
      return `${tool} -A ${chain} ${text}`;
    case 'chain emptied':
      // The host's own chains have others' rules.
      return chain.startsWith('VIPNAT') ? `${tool} -F ${chain}` : `${tool} -D ${chain} ${text}`;
  }
}

function renderNft({ table, chain, text, handle = '' }: OwnRule, how: Tampering): string {
  const place = `${table} ${chain}`;
  switch (how) {
    case 'deleted':
      return `nft delete rule ${place} handle ${handle}`;
    case 'edited':
      return `nft 'replace rule ${place} handle ${handle} ${edit(text)}'`;
    case 'moved':
      return `nft 'delete rule ${place} handle ${handle}; add rule ${place} ${text}'`;
    case 'doubled':
      return `nft 'add rule ${place} ${text}'`;
    case 'chain emptied':
      return `nft flush chain ${place}`;
  }
}

/** Another port; a hook has none, and is made one for another protocol. */
function edit(text: string): string {
  return text.includes('6443') ? text.replace(/6443/, '6444') : `-p udp ${text}`;
}

import type { Family } from '../../../lib/net.ts';
import type { IptablesDialect } from '../../../lib/kernel/port.ts';
import { type FakeTable, type FakeChain, targetOf, copyTable } from './tables.ts';
import { splitWords, type Word, normaliseRule } from './rule-text.ts';
import { targetToOptions, natTargets } from './extensions.ts';

/** Why a tool refuses: exit status and what it prints. */
export class Refusal extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Where a command is carried out. */
interface CommandTarget {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly tableName: string;
  readonly table: FakeTable;
}

/**
 * Carries out one line between `*table` and COMMIT, as iptables-restore 1.8.9 with --noflush does. Answers whether
 * it changed anything; throws a Refusal, after which the table is not to be used any more.
 */
export function runCommand(target: CommandTarget, line: string): boolean {
  if (line.startsWith(':')) return declareChain(target.table, line.slice(1).split(' '));
  const words = splitWords(line);
  const [command = '', chain = ''] = words.map(({ text }) => text);
  const run = commands[command];
  if (run === undefined) throw new Refusal(2, `Bad argument \`${command}'`);
  return run(target, chain, words.slice(2));
}

type Command = (target: CommandTarget, chain: string, words: readonly Word[]) => boolean;

const commands: Readonly<Record<string, Command>> = {
  '-A': (target, chain, words) => insertRule(target, chain, words),
  '-I': (target, chain, words) => {
    const index = takeIndex(words);
    return index === null
      ? insertRule(target, chain, words, 1)
      : insertRule(target, chain, words.slice(1), index);
  },
  '-D': deleteRule,
  '-C': (target, chain, words) =>
    deleteRule({ ...target, table: copyTable(target.table) }, chain, words) && false,
  '-N': ({ table }, name) => {
    if (table.has(name)) throw new Refusal(1, 'Chain already exists.');
    return declareChain(table, [name, '-']);
  },
  '-F': ({ table }, name) => {
    const chains = name === '' ? [...table.values()] : [requireChain(table, name)];
    return chains.map(flush).includes(true);
  },
  '-X': (target, name) => {
    const users = [...target.table].flatMap(([chain, { policy }]) => (policy === null ? [chain] : []));
    return (name === '' ? users : [name]).map((chain) => deleteChain(target, chain)).includes(true);
  },
  '-P': ({ table }, name, [policy]) => setPolicy(requireChain(table, name), policy?.text ?? ''),
};

const noSuchName = 'No chain/target/match by that name.';

/** The longest name the kernel takes. */
const longestName = 28;

/** Under --noflush a declared chain is created, or emptied when it exists; a kernel's chain gets its policy. */
function declareChain(table: FakeTable, [name = '', policy = '-']: readonly string[]): boolean {
  if (name.length > longestName)
    throw new Refusal(2, `chain name \`${name}' too long (must be under 29 chars)`);
  const chain = table.get(name);
  if (chain === undefined) {
    table.set(name, { policy: null, rules: [] });
    return true;
  }
  if (chain.policy === null) return flush(chain);
  return policy !== '-' && setPolicy(chain, policy);
}

function setPolicy(chain: FakeChain, policy: string): boolean {
  if (chain.policy === null || !['ACCEPT', 'DROP'].includes(policy))
    throw new Refusal(2, `bad policy ${policy}`);
  chain.policy = policy;
  return true;
}

function flush(chain: FakeChain): boolean {
  return chain.rules.splice(0).length > 0;
}

function deleteChain({ table, dialect }: CommandTarget, name: string): boolean {
  if (requireChain(table, name).policy !== null) throw new Refusal(1, noSuchName);
  const isReferenced = [...table.values()].some(({ rules }) => rules.some((rule) => targetOf(rule) === name));
  if (isReferenced || requireChain(table, name).rules.length > 0) {
    const [code, reason] = dialect === 'nft' ? [4, 'Device or resource busy'] : [1, 'Too many links'];
    throw new Refusal(code, `CHAIN_DEL failed (${reason}): chain ${name}`);
  }
  return table.delete(name);
}

function insertRule(target: CommandTarget, name: string, words: readonly Word[], index?: number): boolean {
  const rule = readRule(target, words);
  const { rules } = requireChain(target.table, name);
  const at = index === undefined ? rules.length : index - 1;
  if (at > rules.length) throw new Refusal(1, 'Index of insertion too big.');
  rules.splice(at, 0, rule);
  return true;
}

/** The first equal rule, or the one at an index. */
function deleteRule(target: CommandTarget, name: string, words: readonly Word[]): boolean {
  const index = takeIndex(words);
  const rule = index === null ? readRule(target, words) : '';
  const rules = target.table.get(name)?.rules ?? [];
  const at = index === null ? rules.indexOf(rule) : index - 1;
  if (at < 0 || at >= rules.length)
    throw new Refusal(1, 'Bad rule (does a matching rule exist in that chain?).');
  rules.splice(at, 1);
  return true;
}

function takeIndex([word]: readonly Word[]): number | null {
  return word !== undefined && !word.isQuoted && /^\d+$/.test(word.text) ? Number(word.text) : null;
}

function requireChain(table: FakeTable, name: string): FakeChain {
  const chain = table.get(name);
  if (chain === undefined) throw new Refusal(1, noSuchName);
  return chain;
}

function readRule({ table, tableName, family, dialect }: CommandTarget, words: readonly Word[]): string {
  const { text, target } = normaliseOrRefuse(words, family);
  if (target === null || target in targetToOptions) {
    if (target !== null && natTargets.has(target) && tableName !== 'nat')
      throw new Refusal(dialect === 'nft' ? 4 : 1, 'RULE_APPEND failed (Invalid argument)');
    return text;
  }
  if (table.get(target)?.policy !== null) {
    throw new Refusal(
      2,
      dialect === 'nft' ? `Chain '${target}' does not exist` : `Couldn't load target \`${target}'`,
    );
  }
  return text;
}

function normaliseOrRefuse(words: readonly Word[], family: Family): ReturnType<typeof normaliseRule> {
  try {
    return normaliseRule(words, family);
  } catch (error) {
    throw new Refusal(2, error instanceof Error ? error.message : String(error));
  }
}

import { quoteWords } from '../../text/shell-words.ts';
import { splitRule } from './rule.ts';

/** One step of a plan within a table. */
export type Change =
  /** Creates a chain of ours, or empties it when it exists. */
  | { readonly kind: 'reset-chain'; readonly chain: string; readonly exists: boolean }
  | { readonly kind: 'append'; readonly chain: string; readonly rule: string }
  /** Puts a hook before every rule of a kernel's chain. */
  | { readonly kind: 'insert'; readonly chain: string; readonly rule: string }
  /** Deletes by value, so that a rule somebody else removed meanwhile fails the whole transaction. */
  | { readonly kind: 'delete'; readonly chain: string; readonly rule: string }
  | { readonly kind: 'delete-chain'; readonly chain: string };

/** The part of a `*-restore --noflush` script that makes these changes to one table, as one transaction. */
export function toRestoreLines(table: string, changes: readonly Change[]): string[] {
  return [`*${table}`, ...changes.map(toRestoreLine), 'COMMIT'];
}

/** The same change as arguments of a plain iptables command, to be read or run by a person. */
export function toCommandArguments(table: string, change: Change): string {
  const arguments_ =
    change.kind === 'reset-chain' ? `${change.exists ? '-F' : '-N'} ${change.chain}` : toRestoreLine(change);
  // Brackets are patterns to a shell: IPv6 destinations are quoted.
  const plain = arguments_.replaceAll(/(\[[0-9a-f:.]+\]:\d+)/g, "'$1'");
  // A rule that somebody else wrote can say anything.
  return `-t ${table} ${isPlain(plain) ? plain : quoteWords(splitRule(arguments_))}`;
}

/** Whether a shell takes it for words, with or without quotes, and for nothing more. */
function isPlain(line: string): boolean {
  return /^(?:[\w ./:,+=%@-]|! |"[\w ./:,+=%@-]*"|'[^']*')*$/.test(line);
}

function toRestoreLine(change: Change): string {
  switch (change.kind) {
    case 'reset-chain':
      return `:${change.chain} - [0:0]`;
    case 'append':
      return `-A ${change.chain} ${change.rule}`;
    case 'insert':
      return `-I ${change.chain} ${change.rule}`;
    case 'delete':
      return `-D ${change.chain} ${change.rule}`;
    case 'delete-chain':
      return `-X ${change.chain}`;
  }
}

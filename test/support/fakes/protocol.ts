import { type Transaction } from '../../../lib/kernel/port.ts';

/** The kernel's chains that may hold a hook of ours, by table. */
const tableToHookChains = new Map([
  ['nat', ['PREROUTING', 'OUTPUT', 'POSTROUTING']],
  ['filter', ['FORWARD', 'INPUT']],
]);

/** What in a transaction vipnat must never do, in words; empty for one that keeps to its promises (I4, I5, I6). */
export function findBreaches({ dialect, family, input }: Transaction): string[] {
  if (dialect === 'nftables') return findNftBreaches(family === 'ipv6' ? 'ip6' : 'ip', input);
  const lines = input.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  let table = '';
  const breaches = lines.flatMap((line) => {
    if (line.startsWith('*')) table = line.slice(1);
    return findBreach(table, line) ?? [];
  });
  return [
    ...breaches,
    ...(lines.at(-1) === 'COMMIT' ? [] : ['no COMMIT at the end']),
    ...(input.endsWith('\n') ? [] : ['no newline at the end']),
  ];
}

/** Only our own table is named, and never a rule by its handle. */
function findNftBreaches(family: string, input: string): string[] {
  const command = new RegExp(
    `^(?:(?:add|delete) table|(?:add|flush|delete) (?:chain|set)|add rule) ${family} vipnat(?: |$)`,
  );
  const strange = input.split('\n').filter((line) => line !== '' && !command.test(line));
  return [
    ...strange.map((line) => `is no command for our own table: ${line}`),
    ...(input.endsWith('\n') ? [] : ['no newline at the end']),
  ];
}

function findBreach(table: string, line: string): string | null {
  if (line.startsWith('*') || line === 'COMMIT') return null;
  const [command = '', chain = ''] = (line.startsWith(':') ? `: ${line.slice(1)}` : line).split(' ');
  const breach = findBreachAnywhere(command, line) ?? findBreachAbroad({ table, chain, command }, line);
  return breach === null ? null : `${breach}: ${line}`;
}

function findBreachAnywhere(command: string, line: string): string | null {
  if (command === '-P') return 'sets a policy';
  return command === '-R' || /^-D \S+ \d+$/.test(line) ? 'goes by index' : null;
}

/** In chains that are not ours only our own hooks are added and removed, one by one. */
function findBreachAbroad(
  { table, chain, command }: { table: string; chain: string; command: string },
  line: string,
): string | null {
  if (isOwnChain(chain)) return null;
  // What an earlier version left there is ours to remove (I4).
  if (command === '-D' && isOwnRule(line)) return null;
  if (tableToHookChains.get(table)?.includes(chain) !== true) return 'touches a foreign chain';
  if (!['-A', '-I', '-D'].includes(command)) return "touches a kernel's chain as a whole";
  return isOwnRule(line) ? null : 'touches a foreign rule';
}

function isOwnChain(name: string): boolean {
  return name === 'VIPNAT' || name.startsWith('VIPNAT-');
}

function isOwnRule(line: string): boolean {
  return / --comment "?vipnat:/.test(line) || / -[jg] VIPNAT(?:-|$| )/.test(line);
}

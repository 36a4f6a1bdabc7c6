import { cleanUpRules } from '../../agent/main.ts';
import { cleanUpServices } from '../../balancer/main.ts';
import { nameNode } from '../../config/node-name.ts';
import { type UnreadText } from '../../lib/kernel/real/unread.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { formatRemoval, formatRemovalCommands, formatRemovalJson } from '../format/screens/removal.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { json } from '../command/shared-flags.ts';
import { type OptionsOf, toggle } from '../flags/flag.ts';

const flags = { dryRun: toggle('print what cleanup would remove, and change nothing'), json };

/** `vipnat cleanup`. */
export const cleanup = defineCommand({
  help: `
Examples:
  vipnat cleanup
  vipnat cleanup --dry-run           what cleanup would remove
  vipnat cleanup --vip 10.0.0.50     only the rules of this virtual IP

Removes the rules of vipnat from every backend and both families, also rules of earlier
versions, and ends a drain. With --vip, other virtual IPs keep their rules. The hooks go
with the last virtual IP. Only the flag --vip counts here, not VIPNAT_VIP or a file.
Stop a running agent or balancer first.
Exit status: 0 no rule of vipnat is left, 1 failed, 78 bad configuration.`,
  flags,
  heeds: ['vip', 'stateDir', 'logLevel'],
  run: removeAll,
});

/**
 * Removes every rule and chain of ours, of every version, dialect and family, the balancer's tables and this host's drain; with
 * --vip only those of that virtual IP. With --dry-run it prints what it would remove, and writes nothing. Where rules cannot be read or
 * written, or a program runs that would write them again, the others are removed all the same, and it ends with `failed`.
 */
async function removeAll({
  config,
  flags: given,
  options,
  stdout,
  stderr,
}: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { dryRun, json: isJson } = options;
  // A variable or a file says what the agent balances, and does not count.
  const isNarrowed = given['vip'] !== undefined;
  const vips = isNarrowed ? config.vips : null;
  const { agent, drain, ...own } = await cleanUpRules({ vips, dryRun, stateDir: config.stateDir });
  const balancer = isNarrowed ? nothing : await cleanUpServices({ dryRun });
  const more = [...balancer.problems, ...drain.problems];
  const removal = {
    ...own,
    balancerTables: balancer.tables,
    balancerChains: balancer.chains,
    drainTables: drain.tables,
    drainFiles: drain.files,
    vips,
    dryRun,
    // One obstacle, such as a missing right, is told once.
    problems: [...own.problems, ...more.filter(({ code }) => !own.problems.some((one) => one.code === code))],
  };
  if (isJson) stdout(formatRemovalJson(removal, nameNode(config)));
  else if (dryRun) stdout(formatRemovalCommands(removal, nameNode(config)));
  stderr(`${isJson ? '' : formatRemoval(removal)}${formatProblems(removal.problems)}`);
  if (agent !== null && dryRun) {
    stderr(`an agent (pid ${agent.pid}) is running here: stop it before cleanup\n`);
  }
  return removal.problems.length === 0 ? exitStatuses.done : exitStatuses.failed;
}

/** A cleanup of some virtual IPs of the API is not about the balancer. */
const nothing = { tables: [], chains: [], problems: [] };

function formatProblems(problems: readonly UnreadText[]): string {
  return problems.map(({ code, text }) => `${formatErrorLine(code, toPrintableLine(text))}\n`).join('');
}

import { cleanUpRules } from '../../agent/main.ts';
import { cleanUpServices } from '../../balancer/main.ts';
import { nameNode } from '../../config/node-name.ts';
import { type UnreadText } from '../../lib/kernel/real/unread.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { formatRemoval, formatRemovalCommands, formatRemovalJson } from '../format/screens/removal.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { type CleanupContext } from '../grammar/command-context.ts';

/**
 * `vipnat cleanup`: removes every rule and chain of ours, of every version, dialect and family, the balancer's tables and this host's drain; with
 * --vip only those of that virtual IP. With --dry-run it prints what it would remove, and writes nothing. Where rules cannot be read or
 * written, or a program runs that would write them again, the others are removed all the same, and it ends with `failed`.
 */
export async function cleanup({ config, options, stdout, stderr }: CleanupContext): Promise<number> {
  const { dryRun, json, isNarrowed } = options;
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
  if (json) stdout(formatRemovalJson(removal, nameNode(config)));
  else if (dryRun) stdout(formatRemovalCommands(removal, nameNode(config)));
  stderr(`${json ? '' : formatRemoval(removal)}${formatProblems(removal.problems)}`);
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

import { runAgent, runOnce } from '../../agent/main.ts';
import { describeUnread } from '../../lib/kernel/real/unread.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { describeInSync } from '../findings/describe.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { type RunContext } from '../grammar/command-context.ts';
import { plan } from './plan.ts';

/** `vipnat run`: the agent; with --once it converges and ends, with --dry-run it prints like `plan` and ends. */
export async function run(context: RunContext): Promise<number> {
  const { config, options, stderr } = context;
  if (options.dryRun)
    return plan({ ...context, options: { format: 'commands', json: false, family: null, offline: false } });
  if (!options.once) return runAgent(config);
  const { decisions, unread } = await runOnce(config, stderr);
  for (const { code, text } of describeUnread(unread)) {
    stderr(`${formatErrorLine(code, toPrintableLine(text))}\n`);
  }
  stderr(decisions.map((decision) => `${describeInSync(decision)}\n`).join(''));
  return exitStatuses.done;
}

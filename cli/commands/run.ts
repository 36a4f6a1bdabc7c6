import { toggle, type CommandContext, type OptionsOf, defineCommand } from '../command.ts';
import { optionNames } from '../../config/options.ts';
import { runPlan } from './plan.ts';
import { describeUnread } from '../../lib/kernel/port.ts';
import { formatProblems } from '../output.ts';
import { exitStatuses } from '../../lib/text.ts';
import { describeInSync } from '../findings.ts';

const flags = {
  once: toggle('write the rules once, and end'),
  dryRun: toggle('print what run would write, and end'),
};

/** `vipnat run`: the agent; with --once it converges and ends, with --dry-run it prints like `plan` and ends. */
export const run = defineCommand({
  help: `
Examples:
  vipnat run --vip 10.0.0.50
  vipnat run --vip 10.0.0.50 --dry-run
  vipnat run --config /etc/vipnat.yaml

When the agent stops, its rules keep working. vipnat cleanup removes them.
Exit status: 0 ended by a signal or done, 1 failed, 78 bad configuration.`,
  flags,
  configOptions: optionNames,
  hasLog: ({ once, dryRun }) => !once && !dryRun,
  check: ({ options: { once, dryRun }, noVip, unfitVips }) => [
    ...(once && dryRun
      ? ['--once and --dry-run exclude each other: one writes, the other only prints. Leave one out']
      : []),
    ...noVip(),
    ...unfitVips(),
  ],
  run: runOrPrint,
});

async function runOrPrint(context: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { config, options, stderr } = context;
  if (options.dryRun)
    return await runPlan({
      ...context,
      options: { format: 'commands', json: false, family: null, offline: false },
    });
  // Help, completion and mistakes load this file, too.
  const { runAgent, runOnce } = await import('../../agent/main.ts');
  if (!options.once) return await runAgent(config);
  const { decisions, health, unread } = await runOnce(config, stderr);
  stderr(formatProblems(describeUnread(unread)));
  stderr(decisions.map((decision) => `${describeInSync(decision, health)}\n`).join(''));
  return exitStatuses.done;
}

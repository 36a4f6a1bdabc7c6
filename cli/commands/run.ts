import { exitStatuses } from '../../lib/text/exit-status.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { converge } from '../../agent/reconcile/converge.ts';
import { describeInSync } from '../../agent/decide/describe.ts';
import { claimPresence } from '../../agent/http/presence.ts';
import { observeAndAssess } from '../../agent/reconcile/look.ts';
import { describeUnread, type UnreadText } from '../../agent/observe/unread.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { optionNames } from '../../config/options.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { type OptionsOf, toggle } from '../flags/flag.ts';
import { createPorts, recallMemory } from '../wiring/one-shot-host.ts';
import { runPlan } from './plan.ts';
import { version } from '../wiring/version.ts';
import { WriteBudget } from '../../agent/reconcile/write-budget.ts';
import { type ForwardingListener } from '../../agent/report/loop-observer.ts';
import { switchOnForwarding } from '../../agent/reconcile/switch-forwarding.ts';

const flags = {
  once: toggle('write the rules once, and end'),
  dryRun: toggle('print what run would write, and end'),
};

type RunContext = CommandContext<OptionsOf<typeof flags>>;

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
  heeds: optionNames,
  hasLog: ({ once, dryRun }) => !once && !dryRun,
  check: ({ options: { once, dryRun }, noVip }) => [
    ...(once && dryRun
      ? ['--once and --dry-run exclude each other: one writes, the other only prints. Leave one out']
      : []),
    ...noVip(),
  ],
  run: runOrPrint,
});

async function runOrPrint(context: RunContext): Promise<number> {
  const { config, options } = context;
  if (options.dryRun)
    return runPlan({
      ...context,
      options: { format: 'commands', json: false, family: null, offline: false },
    });
  const info = { version, pid: process.pid, since: systemClock.date().toISOString() };
  if (!options.once) {
    // Help, completion and mistakes load this file, too.
    const { runAgent } = await import('../wiring/run-agent.ts');
    return runAgent(config, info);
  }
  const release = await claimPresence(info);
  try {
    return await runOnce(context);
  } finally {
    await release();
  }
}

async function runOnce({ config, stderr }: RunContext): Promise<number> {
  const ports = createPorts(config, stderr);
  let memory = await recallMemory(config);
  let lines: string[] = [];
  let unread: readonly UnreadText[] = [];
  const budget = new WriteBudget(systemClock);
  const report: ForwardingListener = {
    switchedOn: ({ name }) => {
      stderr(`${name} was 0, and is 1 now\n`);
    },
    contested: ({ name }) => {
      stderr(`another program keeps setting ${name} to 0\n`);
    },
    notSwitched: ({ code, message }) => {
      stderr(`[${code}] ${message}\n`);
    },
  };
  await converge(ports.kernel, async () => {
    let assessment = await observeAndAssess(ports, config, memory);
    const { missingSwitches } = assessment;
    const changed = await switchOnForwarding(
      { ...ports, report, budget },
      missingSwitches,
      assessment.memory,
      config,
    );
    if (changed !== null) assessment = await observeAndAssess(ports, config, changed);
    memory = assessment.memory;
    unread = describeUnread(assessment.observation.unread);
    lines = assessment.decisions.map((decision) => `${describeInSync(decision)}\n`);
    return assessment.plan;
  });
  for (const { code, text } of unread) stderr(`${formatErrorLine(code, toPrintableLine(text))}\n`);
  stderr(lines.join(''));
  return exitStatuses.done;
}

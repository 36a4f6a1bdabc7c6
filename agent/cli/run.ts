import { exitStatuses } from '../../lib/exit-status.ts';
import { systemClock } from '../../lib/kernel/clock.ts';
import { converge } from '../converge.ts';
import { describeInSync } from '../describe.ts';
import { type ForwardingReport, switchOnForwarding } from '../forwarding.ts';
import { claimPresence } from '../http/presence.ts';
import { look } from '../look.ts';
import { describeUnread, type UnreadText } from '../unread.ts';
import { toPrintableLine } from '../../lib/printable.ts';
import { formatErrorLine } from './error-text.ts';
import { type RunContext } from './command-context.ts';
import { createPorts, recallMemory } from './host.ts';
import { plan } from './plan.ts';
import { runAgent } from './run-agent.ts';
import { version } from './version.ts';
import { WriteBudget } from '../write-budget.ts';

/** `vipnat run`: the agent; with --once it converges and ends, with --dry-run it prints like `plan` and ends. */
export async function run(context: RunContext): Promise<number> {
  const { config, options } = context;
  if (options.dryRun)
    return plan({ ...context, options: { format: 'commands', json: false, family: null, offline: false } });
  const info = { version, pid: process.pid, since: systemClock.date().toISOString() };
  if (!options.once) return runAgent(config, info);
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
  const report: ForwardingReport = {
    switchedOn: ({ name }) => {
      stderr(`${name} was 0, and is 1 now\n`);
    },
    contested: ({ name }) => {
      stderr(`somebody keeps switching ${name} off\n`);
    },
    notSwitched: ({ code, message }) => {
      stderr(`[${code}] ${message}\n`);
    },
  };
  await converge(ports.kernel, async () => {
    let assessment = await look(ports, config, memory);
    const { missingSwitches } = assessment;
    const changed = await switchOnForwarding(
      { ...ports, report, budget },
      missingSwitches,
      assessment.memory,
      config,
    );
    if (changed !== null) assessment = await look(ports, config, changed);
    memory = assessment.memory;
    unread = describeUnread(assessment.observation.unread);
    lines = assessment.decisions.map((decision) => `${describeInSync(decision)}\n`);
    return assessment.plan;
  });
  for (const { code, text } of unread) stderr(`${formatErrorLine(code, toPrintableLine(text))}\n`);
  stderr(lines.join(''));
  return exitStatuses.done;
}

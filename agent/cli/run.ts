import { setFlagsFromString } from 'node:v8';
import { createKernel } from '../../lib/kernel/kernel.ts';
import { systemClock } from '../../lib/kernel/clock.ts';
import { type Config } from '../config/config.ts';
import { converge } from '../converge.ts';
import { describeInSync } from '../describe.ts';
import { askProxyMode } from '../discovery/proxy-mode.ts';
import { type AgentInfo, claimPresence } from '../http/presence.ts';
import { createLogger } from '../log/logger.ts';
import { look } from '../look.ts';
import { Loop } from '../loop.ts';
import { emptyMemory } from '../memory.ts';
import { Report } from '../report.ts';
import { type RunContext } from './command-context.ts';
import { createPorts } from './host.ts';
import { plan } from './plan.ts';
import { version } from './version.ts';

/** `vipnat run`: the agent; with --once it converges and ends, with --dry-run it prints like `plan` and ends. */
export async function run(context: RunContext): Promise<number> {
  const { config, options } = context;
  if (options.dryRun) return plan({ ...context, options: { format: 'commands', offline: false } });
  const info = { version, pid: process.pid, since: systemClock.date().toISOString() };
  const release = await claimPresence(info);
  try {
    return await (options.once ? runOnce(context) : runAgent(config, info));
  } finally {
    await release();
  }
}

async function runOnce({ config, stderr }: RunContext): Promise<number> {
  const ports = createPorts();
  let memory = emptyMemory;
  let lines: string[] = [];
  await converge(ports.kernel, async () => {
    const assessment = await look(ports, config, memory);
    memory = assessment.memory;
    lines = assessment.decisions.map((decision) => `${describeInSync(decision)}\n`);
    return assessment.plan;
  });
  stderr(lines.join(''));
  return 0;
}

/** Runs until SIGTERM or SIGINT. The rules stay when it ends (I8); only `cleanup` removes them. */
async function runAgent(config: Config, { pid }: AgentInfo): Promise<number> {
  // Polls and looks leave garbage all the time. V8 would rather let the heap grow to twice the size than look.
  for (const flag of ['--max-semi-space-size=1', '--optimize-for-size']) setFlagsFromString(flag);
  const logger = await createLogger(config);
  const kernel = createKernel({
    onProblem: (problem) => {
      logger.warn(problem.message, { code: problem.code });
    },
  });
  const report = new Report(logger, systemClock);
  const loop = new Loop({ kernel, askProxyMode, clock: systemClock, report }, config);
  logger.info(`vipnat ${version} runs, pid ${pid}`);
  const signal = waitForSignal();
  loop.start();
  logger.info(`${await signal}: stopping; the rules stay (vipnat cleanup removes them)`);
  await loop.stop();
  return 0;
}

function waitForSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    // Not `once`: execa's clean-up ends the process when it finds itself the last listener (signal-exit 4).
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, resolve);
  });
}

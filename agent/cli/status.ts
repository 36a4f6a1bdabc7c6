import { systemClock } from '../../lib/kernel/clock.ts';
import { type Config } from '../config/config.ts';
import { askAgentActivity } from '../http/agent-activity.ts';
import { findAgent } from '../http/presence.ts';
import { readFindings } from '../status/findings.ts';
import { type HostStatus, isInTrouble, toHostStatus } from '../status/host-status.ts';
import { type StatusContext } from './command-context.ts';
import { formatStatus } from './format/status.ts';
import { formatStatusJson } from './format/status-json.ts';
import { createHostKernel, lookAtHost } from './host.ts';
import { nameNode } from './node-name.ts';

/** Between two screens of --watch. */
const watchMs = 1000;

const clearScreen = '\u001b[H\u001b[2J';

/** `vipnat status`: how it is, on one screen. Exit 0, or 1 when a VIP is not balanced or the rules are not as they should be. */
export async function status({ config, options, stdout, stderr }: StatusContext): Promise<number> {
  for (;;) {
    const found = await readStatus(config, stderr);
    const text = options.json
      ? formatStatusJson(found, nameNode(config), systemClock.date())
      : formatStatus(found);
    stdout(options.watch && process.stdout.isTTY ? `${clearScreen}${text}` : text);
    if (!options.watch) return isInTrouble(found) ? 1 : 0;
    await new Promise<void>((resolve) => {
      systemClock.schedule(watchMs, resolve);
    });
  }
}

async function readStatus(config: Config, stderr: (text: string) => void): Promise<HostStatus> {
  const [assessment, agent, activity, findings] = await Promise.all([
    lookAtHost(config, stderr),
    findAgent(),
    askAgentActivity(),
    readFindings(createHostKernel(), config),
  ]);
  return toHostStatus(assessment, { agent, activity, ...findings });
}

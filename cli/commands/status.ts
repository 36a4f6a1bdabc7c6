import { exitStatuses } from '../../lib/text/exit-status.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type Config } from '../../config/config.ts';
import { askAgentActivity } from '../../agent/http/agent-activity.ts';
import { findAgent } from '../../agent/http/presence.ts';
import { readLiveDetails } from '../../agent/report/live-details.ts';
import { type HostStatus, isInTrouble, toHostStatus } from '../../agent/report/host-status.ts';
import { type StatusContext } from '../grammar/command-context.ts';
import { formatStatus } from '../format/screens/status.ts';
import { formatStatusJson } from '../format/json/status-json.ts';
import { createHostKernel, lookAtHost } from '../wiring/one-shot-host.ts';
import { nameNode } from '../wiring/node-name.ts';
import { clearScreen, waitForNext } from '../wiring/wait-for-next.ts';

/**
 * `vipnat status`: how it is, on one screen. Exit `done`, or `found` when a VIP is not balanced or the rules are not
 * as they should be. With --watch it ends when it is stopped, or when nobody reads its output any more.
 */
export async function status({ config, options, screen, stdout, stderr }: StatusContext): Promise<number> {
  const { json, watchMs } = options;
  for (;;) {
    const found = await readStatus(config, stderr);
    const text = json
      ? formatStatusJson(found, nameNode(config), systemClock.date())
      : formatStatus(found, screen());
    stdout(watchMs !== null && screen().isTerminal ? `${clearScreen}${text}` : text);
    if (watchMs === null) return isInTrouble(found) ? exitStatuses.found : exitStatuses.done;
    if ((await waitForNext(watchMs)) === 'reader gone') return exitStatuses.readerGone;
  }
}

async function readStatus(config: Config, stderr: (text: string) => void): Promise<HostStatus> {
  const [assessment, agent, activity, findings] = await Promise.all([
    lookAtHost(config, stderr),
    findAgent(),
    askAgentActivity(),
    readLiveDetails(createHostKernel(), config),
  ]);
  return toHostStatus(assessment, { agent, activity, ...findings });
}

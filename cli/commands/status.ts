import { exitStatuses } from '../../lib/text/exit-status.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type Config } from '../../config/config.ts';
import { createDrainStore } from '../../agent/endpoints/drain-store.ts';
import { askAgentActivity } from '../../agent/http/agent-activity.ts';
import { findAgent } from '../../agent/http/presence.ts';
import { readLiveDetails } from '../../agent/report/live-details.ts';
import { type HostStatus, isInTrouble, toHostStatus } from '../../agent/report/host-status.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { color, hostOptions, json, watch } from '../command/shared-flags.ts';
import { type OptionsOf } from '../flags/flag.ts';
import { type HostBalancer, readHostBalancer } from '../balancer/host-balancer.ts';
import { findTrouble } from '../balancer/view-balancer.ts';
import { formatHostServices } from '../format/screens/host-services.ts';
import { formatStatus } from '../format/screens/status.ts';
import { type Screen } from '../format/text/screen.ts';
import { formatBalancerJson } from '../format/json/balancer-json.ts';
import { formatStatusJson } from '../format/json/status-json.ts';
import { createHostKernel, lookAtHost } from '../wiring/one-shot-host.ts';
import { nameNode } from '../wiring/node-name.ts';
import { clearScreen, waitForNext } from '../wiring/wait-for-next.ts';

const flags = { json, watch: watch(1000), color };

type StatusContext = CommandContext<OptionsOf<typeof flags>>;

/** `vipnat status`. */
export const status = defineCommand({
  help: `
Examples:
  vipnat status --vip 10.0.0.50
  vipnat status --vip 10.0.0.50 --json
  vipnat status --vip 10.0.0.50 --watch=5

status needs neither the agent nor the API, and changes nothing.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 nothing wrong, 1 failed, 2 not balanced or not in sync, 78 bad configuration.`,
  flags,
  heeds: [...hostOptions, 'nodeName', 'runDir'],
  agentScope: () => 'host',
  check: ({ noVip }) => noVip(),
  run: printStatus,
});

/**
 * How it is, on one screen: each VIP, and Services where this host has them. Exit `done`, or `found` when a VIP is
 * not balanced, the rules are not as they should be, or this node does not balance Services. With --watch it ends when it is stopped, or when nobody reads its output any more.
 */
async function printStatus({ config, options, screen, stdout, stderr }: StatusContext): Promise<number> {
  const { json: isJson, watch: watchMs } = options;
  for (;;) {
    const [found, services] = await Promise.all([readStatus(config, stderr), readHostBalancer()]);
    const text = isJson
      ? formatAllJson(found, services, nameNode(config))
      : formatAll(found, services, screen());
    stdout(watchMs !== null && screen().isTerminal ? `${clearScreen}${text}` : text);
    const isTrouble = (found !== null && isInTrouble(found)) || findTrouble(services) !== null;
    if (watchMs === null) return isTrouble ? exitStatuses.found : exitStatuses.done;
    if ((await waitForNext(watchMs)) === 'reader gone') return exitStatuses.readerGone;
  }
}

function formatAllJson(found: HostStatus | null, services: HostBalancer, node: string): string {
  if (found === null) return formatBalancerJson(services, node);
  return formatStatusJson(found, node, systemClock.date(), services);
}

function formatAll(found: HostStatus | null, services: HostBalancer, screen: Screen): string {
  const lines = formatHostServices(services, screen).map((line) => `${line}\n`);
  const blocks = [...(found === null ? [] : [formatStatus(found, screen)]), lines.join('')];
  return blocks.filter((block) => block !== '').join('\n');
}

/** Of the VIPs; null without any, on a host that has Services alone. */
async function readStatus(config: Config, stderr: (text: string) => void): Promise<HostStatus | null> {
  if (config.vips.length === 0) return null;
  const [assessment, agent, activity, drain, findings] = await Promise.all([
    lookAtHost(config, stderr),
    findAgent(),
    askAgentActivity(),
    // One that cannot be read drains nobody, and the agent logs it.
    createDrainStore(config.stateDir)
      .load()
      .catch(() => null),
    readLiveDetails(createHostKernel(), config),
  ]);
  return toHostStatus(assessment, { agent, activity, drain, ...findings });
}

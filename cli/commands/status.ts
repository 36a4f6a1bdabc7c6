import { readStatus } from '../../agent/main.ts';
import { isInTrouble } from '../../agent/report/host-status.ts';
import { formatStatusJson } from '../../agent/report/status-json.ts';
import { inspectBalancer } from '../../balancer/main.ts';
import { type Config } from '../../config/config.ts';
import { nameNode } from '../../config/node-name.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { findTrouble, type HostBalancer } from '../../lib/services/host-balancer.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { describeBalancer, formatBalancerJson } from '../format/json/balancer-json.ts';
import { formatHostServices } from '../format/screens/host-services.ts';
import { formatStatus, type StatusView } from '../format/screens/status.ts';
import { type Screen } from '../format/text/screen.ts';
import { clearScreen, waitForNext } from '../format/text/wait-for-next.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { color, hostOptions, json, watch } from '../command/shared-flags.ts';
import { type OptionsOf } from '../flags/flag.ts';

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
    const [found, services] = await Promise.all([readVips(config, stderr), inspectBalancer()]);
    const text = isJson
      ? formatAllJson(found, services, nameNode(config))
      : formatAll(found, services, screen());
    stdout(watchMs !== null && screen().isTerminal ? `${clearScreen}${text}` : text);
    const isTrouble = (found !== null && isInTrouble(found)) || findTrouble(services) !== null;
    if (watchMs === null) return isTrouble ? exitStatuses.found : exitStatuses.done;
    if ((await waitForNext(watchMs)) === 'reader gone') return exitStatuses.readerGone;
  }
}

function formatAllJson(found: StatusView | null, services: HostBalancer, node: string): string {
  if (found === null) return formatBalancerJson(services, node);
  return formatStatusJson(found, node, systemClock.date(), { balancer: describeBalancer(services) });
}

function formatAll(found: StatusView | null, services: HostBalancer, screen: Screen): string {
  const lines = formatHostServices(services, screen).map((line) => `${line}\n`);
  const blocks = [...(found === null ? [] : [formatStatus(found, screen)]), lines.join('')];
  return blocks.filter((block) => block !== '').join('\n');
}

/** Of the VIPs; null without any, on a host that has Services alone. */
async function readVips(config: Config, stderr: (text: string) => void): Promise<StatusView | null> {
  if (config.vips.length === 0) return null;
  return await readStatus(config, stderr);
}

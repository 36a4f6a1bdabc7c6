import { readStatus } from '../../agent/main.ts';
import { isInTrouble } from '../../agent/report/host-status.ts';
import { formatStatusJson } from '../../agent/report/status-json.ts';
import { inspectBalancer } from '../../balancer/main.ts';
import { type Config } from '../../config/config.ts';
import { nameNode } from '../../config/node-name.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { findTrouble, type HostBalancer } from '../../lib/services/host-balancer.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { readUntracked } from '../findings/read-untracked.ts';
import { describeBalancer, formatBalancerJson } from '../format/json/balancer-json.ts';
import { formatHostServices } from '../format/screens/host-services.ts';
import { formatStatus, type StatusView } from '../format/screens/status.ts';
import { type Screen } from '../format/text/screen.ts';
import { clearScreen, waitForNext } from '../format/text/wait-for-next.ts';
import { type StatusContext } from '../grammar/command-context.ts';

/**
 * `vipnat status`: how it is, on one screen: each VIP, and Services where this host has them. Exit `done`, or `found` when a VIP is
 * not balanced, the rules are not as they should be, or this node does not balance Services. With --watch it ends when it is stopped, or when nobody reads its output any more.
 */
export async function status({ config, options, screen, stdout, stderr }: StatusContext): Promise<number> {
  const { json, watchMs } = options;
  for (;;) {
    const [found, services] = await Promise.all([readVips(config, stderr), inspectBalancer()]);
    const text = json
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
  const found = await readStatus(config, stderr);
  const { untracked } = await readUntracked(found.assessment);
  return { ...found, untracked };
}

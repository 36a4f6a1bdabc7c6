import { agentRole, findHolder } from '../../lib/http/singleton.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { type ForwardChain } from '../../lib/kernel/port.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import { toArguments } from '../../config/arguments.ts';
import { findForeignDrops } from '../findings/foreign-drops.ts';
import { formatCheck } from '../format/screens/check.ts';
import { formatBalancerJson } from '../format/json/balancer-json.ts';
import { formatServicesCheck } from '../format/screens/services-check.ts';
import { formatCheckJson } from '../format/json/check-json.ts';
import { createKernel } from '../../lib/kernel/real/kernel.ts';
import { nameNode } from '../../config/node-name.ts';
import { describeUnread, type UnreadText } from '../../lib/kernel/real/unread.ts';
import { findRoute } from '../../lib/kubernetes/find-route.ts';
import { checkServices, type ServicesCheck } from '../../balancer/main.ts';
import { type HostLook, lookAtHost } from '../../agent/main.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { color, hostOptions, json } from '../command/shared-flags.ts';
import { type OptionsOf } from '../flags/flag.ts';

const flags = { json, color };

type CheckContext = CommandContext<OptionsOf<typeof flags>>;

/** `vipnat check`. */
export const check = defineCommand({
  help: `
Examples:
  vipnat check --vip 10.0.0.50
  vipnat check --vip 10.0.0.50 --json

If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 in sync, 1 failed, 2 drift, 78 bad configuration.`,
  flags,
  heeds: hostOptions,
  agentScope: () => 'host',
  check: ({ noVip }) => noVip(),
  run: compare,
});

/**
 * Says how the rules differ from what `run` and the balancer of this host would have written. Exit `done` in sync, `found`
 * with drift.
 */
async function compare(context: CheckContext): Promise<number> {
  const { config } = context;
  const services = await checkServices({ route: findRoute({ ...config, vips: [] }), node: nameNode(config) });
  if (config.vips.length === 0) return reportServices(services, context);
  const isInSync = await checkVips(services, context);
  return isInSync && services.drift.length === 0 ? exitStatuses.done : exitStatuses.found;
}

/** On a host without a virtual IP of the API. */
function reportServices(services: ServicesCheck, { config, options, screen, stdout }: CheckContext): number {
  const { drift, unread } = services;
  stdout(
    options.json
      ? formatBalancerJson(services.host, nameNode(config), { inSync: drift.length === 0, drift, unread })
      : formatServicesCheck(services, screen()),
  );
  return drift.length === 0 ? exitStatuses.done : exitStatuses.found;
}

async function checkVips(
  services: ServicesCheck,
  { config, given, options, screen, stdout, stderr }: CheckContext,
): Promise<boolean> {
  const [assessment, agent] = await Promise.all([lookAtHost(config, stderr), findHolder(agentRole)]);
  const { drops, problems } = await lookForDrops(assessment);
  const flags = quoteWords(toArguments(config, given));
  const unread = [...describeUnread(assessment.observation.unread), ...problems];
  const isInSync = assessment.plan.tables.length === 0 && assessment.missingSwitches.length === 0;
  stdout(
    options.json
      ? formatCheckJson(assessment, { drops, unread, services }, nameNode(config))
      : `${formatCheck({ assessment, drops, unread, config, agent, flags }, screen())}${formatServicesCheck(services, screen())}`,
  );
  return isInSync;
}

/** The rules are compared all the same where nobody can list others' chains. */
async function lookForDrops(
  assessment: HostLook,
): Promise<{ drops: readonly ForwardChain[]; problems: readonly UnreadText[] }> {
  try {
    const chains = await createKernel({ onProblem: () => undefined }).listForwardChains();
    return { drops: findForeignDrops(chains, assessment), problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    const text = `not checked: chains of nftables that drop forwarded packets (${error.message})`;
    return { drops: [], problems: [{ code: error.code, text }] };
  }
}

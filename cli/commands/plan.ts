import { exitStatuses } from '../../lib/text/exit-status.ts';
import { type Config } from '../../config/config.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { planOffline } from '../../agent/decide/offline.ts';
import { type PlanContext, type PlanOptions } from '../grammar/command-context.ts';
import { formatCommands } from '../format/screens/commands.ts';
import { selectFamily } from '../format/screens/family.ts';
import {
  formatServicesPlan,
  formatServicesPlanJson,
  type ServicesPlan,
} from '../format/screens/services-plan.ts';
import { formatJson } from '../format/json/json.ts';
import { formatNft, formatRestore } from '../format/screens/restore.ts';
import { nameNode } from '../../config/node-name.ts';
import { type Screen } from '../format/text/screen.ts';
import { describeInSync } from '../findings/describe.ts';
import { describeUnread } from '../../lib/kernel/real/unread.ts';
import type { PlannedRules } from '../../agent/main.ts';

/** `vipnat plan`: prints what `run` would write now, and what the balancer of this host would, and writes nothing. */
export async function plan(context: PlanContext): Promise<number> {
  const { config, options, stdout } = context;
  const services = await planServices(context);
  if (config.vips.length > 0) return await planVips(context, services);
  stdout(options.json ? formatServicesPlanJson(services, nameNode(config)) : formatServicesPlan(services));
  return exitStatuses.done;
}

/** None where nothing may be read, and for formats that are about the rules of virtual IPs alone. */
async function planServices({ config, options, stderr }: PlanContext): Promise<ServicesPlan | null> {
  if (options.offline || (!options.json && options.format !== 'commands')) return null;
  const { readServicesPlan } = await import('../services/services-plan.ts');
  const { plan: found, notes } = await readServicesPlan(config, options.family);
  for (const note of notes) stderr(`${toPrintableLine(note)}\n`);
  return found;
}

async function planVips(
  { config, options, screen, stdout, stderr }: PlanContext,
  services: ServicesPlan | null,
): Promise<number> {
  const seen = options.offline ? planOffline(config) : await lookOnce(config, stderr);
  const state = selectFamily(seen, options.family);
  for (const { code, text } of describeUnread(state.observation.unread)) {
    stderr(`${formatErrorLine(code, toPrintableLine(text))}\n`);
  }
  stdout(format(state, { config, options, screen: screen(), services }));
  if (isInSync(state)) {
    for (const decision of state.decisions) stderr(`${describeInSync(decision)}. Nothing to change.\n`);
  }
  return exitStatuses.done;
}

function isInSync({ plan, missingSwitches, sourceRoutes }: PlannedRules): boolean {
  return plan.transactions.length === 0 && missingSwitches.length === 0 && sourceRoutes.length === 0;
}

async function lookOnce(config: Config, tell: (text: string) => void): Promise<PlannedRules> {
  const { lookAtHost } = await import('../../agent/main.ts');
  return lookAtHost(config, tell);
}

/** What a plan is printed by. */
interface Form {
  readonly config: Config;
  readonly options: PlanOptions;
  readonly screen: Screen;
  readonly services: ServicesPlan | null;
}

function format(state: PlannedRules, { config, options, screen, services }: Form): string {
  if (options.json) return formatJson(state, nameNode(config), services);
  switch (options.format) {
    case 'nft':
      return formatNft(state.decisions, config);
    case 'restore':
      return formatRestore(state);
    case 'commands':
      return `${isInSync(state) ? '' : formatCommands(state, nameNode(config), screen)}${formatServicesPlan(services)}`;
  }
}

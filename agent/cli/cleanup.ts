import { VipnatError } from '../../lib/errors.ts';
import { exitStatuses } from '../../lib/exit-status.ts';
import { parseSave } from '../../lib/netfilter/iptables/parse.ts';
import { parseNftTable } from '../../lib/netfilter/nftables/parse.ts';
import { converge } from '../converge.ts';
import { findAgent } from '../http/presence.ts';
import { everything } from '../look.ts';
import { plan as makePlan, planRemoval, type Plan } from '../plan.ts';
import { type CleanupContext } from './command-context.ts';
import { formatRemoval, formatRemovalCommands, formatRemovalJson } from './format/removal.ts';
import { createHostKernel } from './host.ts';
import { nameNode } from './node-name.ts';

/**
 * `vipnat cleanup`: removes every rule and chain of ours, of every version, backend and family; with --vip only those of
 * that virtual IP. With --dry-run it prints what it would remove, and writes nothing.
 * @throws VipnatError AGENT_ALREADY_RUNNING, unless it is a dry run
 */
export async function cleanup({ config, options, stdout, stderr }: CleanupContext): Promise<number> {
  const { dryRun, json, isNarrowed } = options;
  const vips = isNarrowed ? config.vips : null;
  const agent = await findAgent();
  if (agent !== null && !dryRun) {
    throw new VipnatError(
      'AGENT_ALREADY_RUNNING',
      `an agent (pid ${agent.pid}) is running here and would write the rules again: stop it first`,
    );
  }
  const kernel = createHostKernel();
  const lookForPlan = async (): Promise<Plan> => {
    const { iptables, nftTables } = await kernel.read(everything);
    const seen = [...iptables.map(parseSave), ...nftTables.map(parseNftTable)];
    return vips === null ? makePlan({ backend: 'nft', balances: [] }, seen) : planRemoval(seen, vips);
  };
  const removed = dryRun ? await lookForPlan() : await converge(kernel, lookForPlan);
  const removal = { plan: removed, vips, dryRun };
  if (json) stdout(formatRemovalJson(removal, nameNode(config)));
  else if (dryRun) stdout(formatRemovalCommands(removal, nameNode(config)));
  if (!json) stderr(formatRemoval(removal));
  if (agent !== null) {
    stderr(`an agent (pid ${agent.pid}) is running here: cleanup is refused until it is stopped\n`);
  }
  return exitStatuses.done;
}

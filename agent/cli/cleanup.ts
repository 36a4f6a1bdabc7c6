import { VipnatError } from '../../lib/errors.ts';
import { exitStatuses } from '../../lib/exit-status.ts';
import { parseSave } from '../../lib/netfilter/iptables/parse.ts';
import { parseNftTable } from '../../lib/netfilter/nftables/parse.ts';
import { converge } from '../converge.ts';
import { findAgent } from '../http/presence.ts';
import { everything } from '../look.ts';
import { describeTable, plan as makePlan, type Plan } from '../plan.ts';
import { type CleanupContext } from './command-context.ts';
import { createHostKernel } from './host.ts';

/** `vipnat cleanup`: removes every rule and chain of ours, of every version, backend and family. */
export async function cleanup({ stderr }: CleanupContext): Promise<number> {
  const agent = await findAgent();
  if (agent !== null) {
    throw new VipnatError(
      'AGENT_ALREADY_RUNNING',
      `an agent (pid ${agent.pid}) is running here and would write the rules again: stop it first`,
    );
  }
  const kernel = createHostKernel();
  const lookForPlan = async (): Promise<Plan> => {
    const { iptables, nftTables } = await kernel.read(everything);
    const seen = [...iptables.map(parseSave), ...nftTables.map(parseNftTable)];
    return makePlan({ backend: 'nft', balances: [] }, seen);
  };
  const removed = await converge(kernel, lookForPlan);
  for (const line of describeRemoval(removed)) stderr(`${line}\n`);
  return exitStatuses.done;
}

function describeRemoval({ tables }: Plan): string[] {
  if (tables.length === 0) return ['nothing of vipnat was here'];
  return tables.map((part) => {
    if (part.backend === 'nftables') return `removed the table (${describeTable(part)})`;
    const { changes } = part;
    const chains = changes.filter(({ kind }) => kind === 'delete-chain').length;
    const hooks = changes.filter(({ kind }) => kind === 'delete').length;
    return `removed (${describeTable(part)}): ${count(chains, 'chain')}, ${count(hooks, 'hook')}`;
  });
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

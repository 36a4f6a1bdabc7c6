import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { printNftTable, renderNftTable } from '../../../lib/netfilter/nftables/render.ts';
import { VipnatError } from '../../../lib/text/errors.ts';
import { wayToEntry } from '../../../agent/decide/ways.ts';
import { type Config } from '../../../config/config.ts';
import { isBalanced } from '../../../config/way.ts';
import { type Plan } from '../../../lib/netfilter/plan/table-plan.ts';
import type { PlannedRules, VipDecision } from '../../../agent/main.ts';

/**
 * The plan as what one tool reads: a comment names the tool and its flags. Where nft has a table of each family, one run
 * of it reads both.
 * @throws VipnatError CONFIG_INVALID when the plan is for several tools: no stream can be for all of them.
 */
export function formatRestore({ plan, decisions }: PlannedRules): string {
  refuseSeveralTools(plan);
  const joined = decisions
    .map((decision) => wayToEntry[decision.way].toRoute(decision))
    .find((route) => route.kind === 'jump');
  const note =
    joined === undefined
      ? ''
      : `# jumps to ${joined.chain}, a chain of kube-proxy. If it is missing, iptables-legacy refuses the jump, also with --test\n`;
  return plan.transactions
    .map(({ family, dialect, input }) =>
      dialect === 'nftables'
        ? `# nft -f -\n${input}`
        : `# ${toolName(family, dialect, 'restore')} --noflush\n${note}${input}`,
    )
    .join('');
}

function refuseSeveralTools({ transactions }: Plan): void {
  const tools = new Set(transactions.map(({ family, dialect }) => toolName(family, dialect, 'restore')));
  if (tools.size <= 1) return;
  const isOfTwoBackends = new Set(transactions.map(({ dialect }) => dialect)).size > 1;
  const next = isOfTwoBackends
    ? 'Use --format commands, or give each input of --json to its tool'
    : 'Add --family ipv4, then --family ipv6';
  throw new VipnatError(
    'CONFIG_INVALID',
    `--format restore prints the input of one tool, but this plan is for ${[...tools].join(' and ')}. ${next}`,
  );
}

/**
 * The same balancing as tables of its own for `nft -f -`, one per family. A VIP that goes through kube-proxy goes
 * straight to the same apiservers here: a chain of another table cannot be joined.
 * @throws VipnatError CONFIG_INVALID when nothing says which apiservers these are.
 */
export function formatNft(decisions: readonly VipDecision[], { masquerade }: Config): string {
  const unknown = decisions.find((decision) => isBalanced(decision) && decision.backends.length === 0);
  if (unknown !== undefined) {
    const vip = formatEndpoint(unknown.vip);
    throw new VipnatError(
      'CONFIG_INVALID',
      `an nftables table cannot jump to kube-proxy's chains, so ${vip} needs the apiservers: add --endpoints 10.0.0.11:6443,10.0.0.12:6443`,
    );
  }
  const families = [...new Set(decisions.map(({ vip }) => vip.family))].sort();
  return families
    .map((family) => {
      const balances = decisions
        .filter(({ vip }) => vip.family === family)
        .map(({ vip, backends, affinitySeconds }) => ({
          ...{ vip, backends, masquerade, affinitySeconds },
          apiservers: backends,
        }));
      const table = renderNftTable(family, balances);
      return table === null ? '' : printNftTable(family, table);
    })
    .join('');
}

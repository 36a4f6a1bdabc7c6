import { exitStatuses } from '../../lib/exit-status.ts';
import { toPrintableLine } from '../../lib/printable.ts';
import { quoteWords } from '../../lib/shell-words.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { vipChainName } from '../../lib/netfilter/balance.ts';
import { type ForwardChain } from '../../lib/kernel/port.ts';
import { type Drift } from '../../lib/netfilter/drift.ts';
import { type Decision } from '../decide.ts';
import { describeInSync } from '../describe.ts';
import { findForeignDrops } from '../foreign-drops.ts';
import { type MissingSwitch } from '../forwarding.ts';
import { describeTable, type TablePlan } from '../plan.ts';
import { type CheckContext } from './command-context.ts';
import { createHostKernel, lookAtHost } from './host.ts';

/** What it means for people that a hook is not in its place. */
const chainToConsequence = new Map([
  ['PREROUTING', "clients on other hosts reach only the VIP holder's apiserver"],
  ['OUTPUT', "clients on this host reach only the VIP holder's apiserver"],
  ['POSTROUTING', "connections to apiservers on other nodes hang: replies don't come back this way"],
  ['FORWARD', 'a FORWARD policy of DROP drops connections to apiservers on other nodes'],
]);

/** `vipnat check`: says how the rules differ from what `run` would have written. Exit `done` in sync, `found` with drift. */
export async function check({ config, stdout, stderr }: CheckContext): Promise<number> {
  const assessment = await lookAtHost(config, stderr);
  const { decisions, plan, missingSwitches } = assessment;
  const warnings = [
    ...new Set(assessment.refused.map((sentence) => `warning: ${toPrintableLine(sentence)}\n`)),
    ...findForeignDrops(await createHostKernel().listForwardChains(), assessment).flatMap(describeDrop),
  ];
  if (plan.tables.length === 0 && missingSwitches.length === 0) {
    for (const decision of decisions) stdout(`${toPrintableLine(describeInSync(decision))}\n`);
    stdout(warnings.join(''));
    return exitStatuses.done;
  }
  const label = decisions.map(({ vip }) => formatEndpoint(vip)).join(', ');
  const lines = [
    ...missingSwitches.flatMap(describeSwitch),
    ...plan.tables.flatMap((table) => describeDrift(table, decisions)),
    config.sysctls === 'check' && plan.tables.length === 0
      ? 'vipnat leaves it (--sysctls check)'
      : 'vipnat run repairs it; vipnat run --once repairs it now',
  ];
  const indent = ' '.repeat(label.length + 2);
  stdout(
    lines.map((line, index) => `${index === 0 ? `${label}  ` : indent}${toPrintableLine(line)}\n`).join(''),
  );
  stdout(warnings.join(''));
  return exitStatuses.found;
}

/** No drift: the rules are as vipnat would write them, and do not help there. */
function describeDrop({ table, name }: ForwardChain): string[] {
  const rule = ['nft', 'insert', 'rule', ...table.split(' '), name, 'ct', 'status', 'dnat', 'accept'];
  return [
    `warning: chain ${toPrintableLine(name)} of table ${toPrintableLine(table)} drops what is forwarded (policy drop), and only its owner can let it pass\n`,
    `         connections to apiservers on other nodes hang unless it has a rule like: ${quoteWords(rule)}\n`,
  ];
}

function describeSwitch({ name }: MissingSwitch): string[] {
  return [
    `drift: ${name} is 0: this host does not forward`,
    `       connections to apiservers on other nodes would hang; sysctl -w ${name}=1 switches it on`,
  ];
}

function describeDrift(table: TablePlan, decisions: readonly Decision[]): string[] {
  return table.drift.flatMap((part) => {
    const consequence = describeConsequence(part, decisions);
    return [
      `drift: ${part.message} (${describeTable(table)})`,
      ...(consequence === undefined ? [] : [`       ${consequence}`]),
    ];
  });
}

function isUnhooked(kind: Drift['kind']): boolean {
  return ['missing-hook', 'hook-behind-rival', 'missing-chain', 'edited-table'].includes(kind);
}

function describeConsequence({ chain, kind }: Drift, decisions: readonly Decision[]): string | undefined {
  const consequence = chainToConsequence.get(chain.toUpperCase());
  if (isUnhooked(kind) && consequence !== undefined) return consequence;
  const decision = decisions.find(({ vip }) => vipChainName(vip) === chain);
  return decision === undefined
    ? undefined
    : `${formatEndpoint(decision.vip)} should go the way ${decision.way}`;
}

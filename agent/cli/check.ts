import { exitStatuses } from '../../lib/exit-status.ts';
import { toPrintableLine } from '../../lib/printable.ts';
import { quoteWords } from '../../lib/shell-words.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type ForwardChain } from '../../lib/kernel/port.ts';
import { type Assessment } from '../assess.ts';
import { type Config } from '../config/config.ts';
import { type Decision } from '../decide.ts';
import { describeInSync } from '../describe.ts';
import { findForeignDrops } from '../foreign-drops.ts';
import { type MissingSwitch } from '../forwarding.ts';
import { describeTable, type TablePlan } from '../plan.ts';
import { type CheckContext } from './command-context.ts';
import { formatCheckJson } from './format/check-json.ts';
import { describeConsequence } from './format/consequence.ts';
import { createHostKernel, lookAtHost } from './host.ts';
import { nameNode } from './node-name.ts';

/** `vipnat check`: says how the rules differ from what `run` would have written. Exit `done` in sync, `found` with drift. */
export async function check({ config, options, stdout, stderr }: CheckContext): Promise<number> {
  const assessment = await lookAtHost(config, stderr);
  const drops = findForeignDrops(await createHostKernel().listForwardChains(), assessment);
  const isInSync = assessment.plan.tables.length === 0 && assessment.missingSwitches.length === 0;
  stdout(
    options.json
      ? formatCheckJson(assessment, drops, nameNode(config))
      : formatCheck(assessment, drops, config),
  );
  return isInSync ? exitStatuses.done : exitStatuses.found;
}

function formatCheck(assessment: Assessment, drops: readonly ForwardChain[], config: Config): string {
  const { decisions, plan, missingSwitches } = assessment;
  const warnings = [
    ...new Set(assessment.refused.map((sentence) => `warning: ${toPrintableLine(sentence)}\n`)),
    ...drops.flatMap(describeDrop),
  ].join('');
  if (plan.tables.length === 0 && missingSwitches.length === 0) {
    const lines = decisions.map((decision) => `${toPrintableLine(describeInSync(decision))}\n`);
    return `${lines.join('')}${warnings}`;
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
  const told = lines.map((line, index) => `${index === 0 ? `${label}  ` : indent}${toPrintableLine(line)}\n`);
  return `${told.join('')}${warnings}`;
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
      ...(consequence === null ? [] : [`       ${consequence}`]),
    ];
  });
}

import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { vipChainName } from '../../lib/netfilter/iptables/render.ts';
import { toolName } from '../../lib/kernel/tool-name.ts';
import { type Drift } from '../../lib/netfilter/iptables/drift.ts';
import { type Decision } from '../decide.ts';
import { describeInSync } from '../describe.ts';
import { type MissingSwitch } from '../forwarding.ts';
import { type TablePlan } from '../plan.ts';
import { type CheckContext } from './command-context.ts';
import { lookAtHost } from './host.ts';

const inSyncStatus = 0;
const driftStatus = 2;

/** What it means for people that a hook is not in its place. */
const chainToConsequence = new Map([
  ['PREROUTING', "clients on other hosts reach only the VIP holder's apiserver"],
  ['OUTPUT', "clients on this host reach only the VIP holder's apiserver"],
  ['POSTROUTING', "connections to apiservers on other nodes hang: replies don't come back this way"],
  ['FORWARD', 'a FORWARD policy of DROP drops connections to apiservers on other nodes'],
]);

/** `vipnat check`: says how the rules differ from what `run` would have written. Exit 0 in sync, 2 with drift. */
export async function check({ config, stdout, stderr }: CheckContext): Promise<number> {
  const { decisions, plan, missingSwitches } = await lookAtHost(config, stderr);
  if (plan.tables.length === 0 && missingSwitches.length === 0) {
    for (const decision of decisions) stdout(`${describeInSync(decision)}\n`);
    return inSyncStatus;
  }
  const label = decisions.map(({ vip }) => formatEndpoint(vip)).join(', ');
  const lines = [
    ...missingSwitches.flatMap(describeSwitch),
    ...plan.tables.flatMap((table) => describeTable(table, decisions)),
    config.sysctls === 'check' && plan.tables.length === 0
      ? 'vipnat leaves it (--sysctls check)'
      : 'vipnat run repairs it; vipnat run --once repairs it now',
  ];
  const indent = ' '.repeat(label.length + 2);
  stdout(lines.map((line, index) => `${index === 0 ? `${label}  ` : indent}${line}\n`).join(''));
  return driftStatus;
}

function describeSwitch({ name }: MissingSwitch): string[] {
  return [
    `drift: ${name} is 0: this host does not forward`,
    `       connections to apiservers on other nodes would hang; sysctl -w ${name}=1 switches it on`,
  ];
}

function describeTable(
  { family, backend, table, drift }: TablePlan,
  decisions: readonly Decision[],
): string[] {
  return drift.flatMap((part) => {
    const consequence = describeConsequence(part, decisions);
    return [
      `drift: ${part.message} (${table}, ${toolName(family, backend)})`,
      ...(consequence === undefined ? [] : [`       ${consequence}`]),
    ];
  });
}

function describeConsequence({ chain, kind }: Drift, decisions: readonly Decision[]): string | undefined {
  if (kind === 'missing-hook' || kind === 'hook-behind-rival') return chainToConsequence.get(chain);
  const decision = decisions.find(({ vip }) => vipChainName(vip) === chain);
  return decision === undefined
    ? undefined
    : `${formatEndpoint(decision.vip)} should go the way ${decision.way}`;
}

import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { type ForwardChain } from '../../../lib/kernel/port.ts';
import { toPrintableLine } from '../../../lib/text/printable.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { type Config } from '../../../config/config.ts';
import { describeDropRule, findDropRules } from '../../findings/drop-rules.ts';
import { findLocalClientWarnings, type LocalClientWarning } from '../../findings/local-client-warnings.ts';
import { formatRemoveOnly, formatRunOnce, listUnnamedVips } from '../../findings/unnamed-vips.ts';
import { plainScreen, type Screen } from '../text/screen.ts';
import { describeConsequence } from './consequence.ts';
import { layOutText, paint } from '../text/lay-out.ts';
import { keepTogether } from '../text/wrap.ts';
import { describeInSync } from '../../findings/describe.ts';
import { type UnreadText } from '../../../lib/kernel/real/unread.ts';
import { describeTable, type TablePlan } from '../../../lib/netfilter/plan/table-plan.ts';
import { type HolderInfo } from '../../../lib/http/singleton.ts';
import type { ClosedSwitch, HostLook, VipDecision } from '../../../agent/main.ts';

/** What `check` has found. */
export interface CheckFindings {
  readonly assessment: HostLook;
  /** Chains of other software that drop what is forwarded. */
  readonly drops: readonly ForwardChain[];
  /** What could not be read. */
  readonly unread: readonly UnreadText[];
  readonly config: Pick<Config, 'sysctls'>;
  /** The one that runs here: no other vipnat may write then. */
  readonly agent: Pick<HolderInfo, 'pid'> | null;
  /** The flags of this configuration as a shell takes them: `--vip=10.0.0.50:6443`. */
  readonly flags: string;
}

/** What `check` says: each difference with its consequence, then what it warns of. */
export function formatCheck(findings: CheckFindings, screen: Screen = plainScreen): string {
  const lines = [...formatDrift(findings, screen), ...formatWarnings(findings, screen)];
  return lines.map((line) => `${line}\n`).join('');
}

function formatDrift(findings: CheckFindings, screen: Screen): string[] {
  const { assessment, config } = findings;
  const { decisions, plan, missingSwitches } = assessment;
  if (plan.tables.length === 0 && missingSwitches.length === 0) {
    return decisions.flatMap((decision) =>
      layOutText('', describeInSync(decision), screen).map((line) => paint(line, 'good', screen)),
    );
  }
  const label = decisions.map(({ vip }) => formatEndpoint(vip)).join(', ');
  const lines = [
    ...missingSwitches.flatMap(describeSwitch),
    ...plan.tables.flatMap((table) => describeDrift(table, decisions)),
    ...(config.sysctls === 'check' && plan.tables.length === 0
      ? ['vipnat leaves it off (--sysctls check)']
      : describeRepair(findings)),
  ];
  return putLabel(label, lines, screen);
}

/** What is printed takes no rules of another virtual IP away: whether those are wanted, a person has to say. */
function describeRepair({ assessment, agent, flags }: CheckFindings): string[] {
  if (agent !== null)
    return [`the running agent (pid ${agent.pid}) repairs what differs from its own configuration`];
  const unnamed = listUnnamedVips(assessment);
  const names = unnamed.map(formatEndpoint).join(', ');
  return [
    `vipnat run repairs it; ${keepTogether(formatRunOnce(flags, unnamed))} repairs it now`,
    ...(unnamed.length === 0
      ? []
      : [
          `no --vip names ${names}, and vipnat has rules for it here: name it too, or ${keepTogether(formatRemoveOnly(unnamed))} removes them`,
        ]),
  ];
}

/** In front of the first line; several virtual IPs on a narrow screen have a line of their own. */
function putLabel(label: string, lines: readonly string[], screen: Screen): string[] {
  const isAlone = screen.width !== null && label.length > screen.width / 2;
  const indent = ' '.repeat(isAlone ? 2 : label.length + 2);
  const told = lines.flatMap((line) => layOutMarked({ indent, line, mark: 'drift:' }, screen));
  if (isAlone) return [...layOutText('', label, screen), ...told];
  const [first = '', ...more] = told;
  return [`${label}${first.slice(label.length)}`, ...more];
}

/** A line that begins with a coloured word, or with as many blanks: what does not fit stands behind these. */
function layOutMarked(
  { indent, line, mark }: { indent: string; line: string; mark: string },
  screen: Screen,
): string[] {
  const blank = ' '.repeat(mark.length + 1);
  if (line.startsWith(blank)) return layOutText(`${indent}${blank}`, line.slice(blank.length), screen);
  if (!line.startsWith(`${mark} `)) return layOutText(indent, line, screen);
  const [first = '', ...more] = layOutText(`${indent}${blank}`, line.slice(blank.length), screen);
  return [
    `${indent}${paint(mark, 'doubtful', screen)} ${first.slice(indent.length + blank.length)}`,
    ...more,
  ];
}

function formatWarnings({ assessment, drops, unread, agent }: CheckFindings, screen: Screen): string[] {
  const layOut = (line: string) => layOutMarked({ indent: '', line, mark: 'warning:' }, screen);
  return [
    ...unread.flatMap(({ code, text }) => layOut(`warning: [${code}] ${text}`)),
    ...new Set(assessment.refused.flatMap((sentence) => layOut(`warning: ${sentence}`))),
    ...findLocalClientWarnings(assessment, agent !== null).flatMap((one) =>
      describeLocalClients(one).flatMap(layOut),
    ),
    ...drops.flatMap((drop) => describeDrop(drop).flatMap(layOut)),
    ...findDropRules(assessment).flatMap((one) =>
      warn(describeDropRule(one), [one.deletion]).flatMap(layOut),
    ),
  ];
}

function describeLocalClients({ text, command }: LocalClientWarning): string[] {
  return [`warning: ${text}`, ...(command === null ? [] : [`         ${keepTogether(command)}`])];
}

function warn(text: string, commands: readonly string[]): string[] {
  return [
    `warning: ${toPrintableLine(text)}`,
    ...commands.map((command) => `         ${keepTogether(command)}`),
  ];
}

/** No drift: the rules are as vipnat would write them, and do not help there. */
function describeDrop({ table, name }: ForwardChain): string[] {
  const rule = ['nft', 'insert', 'rule', ...table.split(' '), name, 'ct', 'status', 'dnat', 'accept'];
  return [
    `warning: chain ${toPrintableLine(name)} of table ${toPrintableLine(table)} drops forwarded packets (policy drop), and only its owner can change that`,
    `         connections to apiservers on other nodes hang unless it has a rule like: ${keepTogether(quoteWords(rule))}`,
  ];
}

function describeSwitch({ name, command }: ClosedSwitch): string[] {
  return [
    `drift: ${name} is 0: IP forwarding is off`,
    `       connections to apiservers on other nodes would hang; ${keepTogether(command)} switches it on`,
  ];
}

function describeDrift(table: TablePlan, decisions: readonly VipDecision[]): string[] {
  return table.drift.flatMap((part) => {
    const consequence = describeConsequence(part, decisions);
    return [
      `drift: ${part.message} (${describeTable(table)})`,
      ...(consequence === null ? [] : [`       ${consequence}`]),
    ];
  });
}

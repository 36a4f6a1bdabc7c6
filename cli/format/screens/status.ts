import { toPrintableLine } from '../../../lib/text/printable.ts';
import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { plainScreen, type Screen } from '../text/screen.ts';
import { formatBackends } from './backends.ts';
import { layOutParts, layOutText, type Part } from '../text/lay-out.ts';
import { formatAge } from '../../../lib/text/age.ts';
import { describeSources, findLocalClientWarnings } from '../../findings/local-client-warnings.ts';
import { describeDropRule, findDropRules } from '../../findings/drop-rules.ts';
import { type UntrackedPackets } from '../../doctor/facts/untracked-packets.ts';
import {
  type HostStatus,
  isKeepalivedSeen,
  toVrrpState,
  type VipStatus,
} from '../../../agent/report/host-status.ts';
import { isBalanced } from '../../../config/way.ts';
import { describeKubeProxy } from '../../findings/describe.ts';
import { describeUnread } from '../../../lib/kernel/real/unread.ts';
import { describeDrift } from '../../../lib/netfilter/plan/table-plan.ts';

/** What `status` shows of the VIPs. */
export interface StatusView extends HostStatus {
  /** What keeps packets from being tracked; left out where nobody has looked. */
  readonly untracked?: readonly UntrackedPackets[];
}

/** One screen for a tired person: the answer first, the reason under it, then each apiserver, then who keeps it so. */
export function formatStatus(status: StatusView, screen: Screen = plainScreen): string {
  const blocks = status.vips.map((vip) => formatVip(vip, status, screen));
  return `${[...blocks.flatMap((block) => [...block, '']), ...formatFoot(status, screen)].join('\n')}\n`;
}

function formatVip({ decision, isHeld, backends }: VipStatus, status: StatusView, screen: Screen): string[] {
  const { vip, way, reason } = decision;
  const holder = { text: isHeld ? 'held by this node' : 'not held by this node' };
  const parts: Part[] = isBalanced(decision)
    ? [holder, { text: way }, describeSync(status)]
    : [{ text: 'NOT BALANCED', tone: 'bad' }, { text: way }, holder];
  return [
    ...layOutParts(`${formatEndpoint(vip)}   `, parts, screen),
    ...layOutText('  because ', reason, screen),
    ...(backends.length === 0 ? [] : ['', ...formatBackends(backends, screen)]),
  ];
}

function describeSync({ assessment }: HostStatus): Part {
  const count = describeDrift(assessment.plan).length + assessment.missingSwitches.length;
  if (count === 0) return { text: 'in sync', tone: 'good' };
  return { text: `NOT IN SYNC (${count} difference${count === 1 ? '' : 's'})`, tone: 'bad' };
}

/** What a line of the foot is about. Lines stand below each other. */
function toLabel(word: string): string {
  return word.padEnd('kube-proxy  '.length);
}

function formatFoot(status: StatusView, screen: Screen): string[] {
  const { assessment, vips } = status;
  const drift = [
    ...assessment.missingSwitches.map(({ name }) => `${name} is 0`),
    ...describeDrift(assessment.plan),
  ];
  const [first = 'none', ...more] = drift;
  const hasLocal = vips.some(({ backends }) => backends.some(({ isLocal }) => isLocal));
  const kubeProxy = describeKubeProxy(assessment.observation).replace('kube-proxy: ', '');
  return [
    ...describeKeepalived(vips).flatMap((parts) => layOutParts(toLabel('keepalived'), parts, screen)),
    ...layOutParts(toLabel('agent'), describeAgent(status), screen),
    ...describeDrain(status).flatMap((parts) => layOutParts(toLabel('drained'), parts, screen)),
    ...describeSources(assessment).flatMap((text) => layOutText(toLabel('this host'), text, screen)),
    ...layOutText(toLabel('kube-proxy'), kubeProxy, screen),
    ...layOutText(toLabel('drift'), first, screen),
    ...more.flatMap((line) => layOutText(toLabel(''), line, screen)),
    ...describeUnread(assessment.observation.unread).flatMap(({ code, text }) =>
      layOutText(toLabel('warning'), `[${code}] ${text}`, screen),
    ),
    ...[
      ...new Set(assessment.refused),
      ...findDropRules(assessment).map(describeDropRule),
      ...findLocalClientWarnings(assessment, status.agent !== null).map(({ text }) => text),
    ].flatMap((text) => layOutText(toLabel('warning'), toPrintableLine(text), screen)),
    ...(hasLocal ? ['* this node'] : []),
  ];
}

function describeAgent({ agent, activity }: HostStatus): Part[] {
  if (agent === null) return [{ text: 'NOT RUNNING: rules stay, no agent repairs them', tone: 'bad' }];
  const looked = activity?.lookedMsAgo ?? null;
  const parts = [
    `running, pid ${agent.pid}, since ${agent.since}`,
    ...(looked === null
      ? []
      : [`last sync ${looked < 1000 ? `${Math.round(looked)} ms` : formatAge(looked)} ago`]),
    ...(activity === null ? [] : [`${activity.writes} write${activity.writes === 1 ? '' : 's'}`]),
  ];
  return parts.map((text) => ({ text }));
}

function describeDrain({ drain }: HostStatus): Part[][] {
  if (drain === null) return [];
  const vip = drain.vipStaysSince === null ? 'the VIP leaves' : 'the VIP may stay: no other host took it';
  const effect = `no new connections to this apiserver, and ${vip}`;
  const parts = [`since ${drain.since.toISOString()}`, effect, 'vipnat undrain ends it'];
  return [parts.map((text) => ({ text, tone: 'doubtful' as const }))];
}

/** The instances of the VIPs, each once. */
function describeKeepalived(vips: readonly VipStatus[]): Part[][] {
  const keyToParts = new Map(
    vips.map((vip) => describeInstance(vip)).map((parts) => [JSON.stringify(parts), parts]),
  );
  return [...keyToParts.values()];
}

function describeInstance(vip: VipStatus): Part[] {
  const { instance } = vip.keepalived;
  if (!isKeepalivedSeen(vip)) return [{ text: 'none is seen here' }];
  const state = toVrrpState(vip) ?? 'running, state not known';
  return [
    {
      text: vip.vrrp === null ? state : `${state} for ${formatAge(vip.vrrp.forMs)}`,
      tone: state === 'FAULT' ? 'bad' : undefined,
    },
    ...(instance === null ? [] : [{ text: `vrid ${instance.vrid}` }]),
    ...(instance === null || instance.priority === null ? [] : [{ text: `priority ${instance.priority}` }]),
  ];
}

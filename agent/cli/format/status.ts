import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { toPrintableLine } from '../../../lib/printable.ts';
import { formatAge } from '../../age.ts';
import { describeKubeProxy } from '../../describe.ts';
import { describeDrift } from '../../plan.ts';
import {
  type BackendStatus,
  type HostStatus,
  isKeepalivedSeen,
  toVrrpState,
  type VipStatus,
} from '../../status/host-status.ts';

/** One screen for a tired person: the answer first, the reason under it, then each apiserver, then who keeps it so. */
export function formatStatus(status: HostStatus): string {
  const blocks = status.vips.map((vip) => formatVip(vip, status));
  const lines = [...blocks.flatMap((block) => [...block, '']), ...formatFoot(status)];
  return `${lines.map(toPrintableLine).join('\n')}\n`;
}

function formatVip({ decision, isHeld, backends }: VipStatus, status: HostStatus): string[] {
  const { vip, way, reason } = decision;
  const holder = isHeld ? 'held by this node' : 'not held here';
  const state =
    way === 'passthrough'
      ? `NOT BALANCED · passthrough · ${holder}`
      : `${holder} · ${way} · ${describeSync(status)}`;
  return [
    `${formatEndpoint(vip)}   ${state}`,
    `  because ${reason}`,
    ...(backends.length === 0 ? [] : ['', ...formatTable(backends)]),
  ];
}

function describeSync({ assessment }: HostStatus): string {
  const count = describeDrift(assessment.plan).length + assessment.missingSwitches.length;
  return count === 0 ? 'in sync' : `NOT IN SYNC (${count} difference${count === 1 ? '' : 's'})`;
}

const titles = ['APISERVER', 'STATE', 'SINCE', 'FLOWS', 'WHY'] as const;

/** Numbers stand to the right. */
const rightColumn = 3;

function formatTable(backends: readonly BackendStatus[]): string[] {
  const rows = backends.map(({ endpoint, isLocal, state, reason, forMs, flows }) => [
    `${formatEndpoint(endpoint)}${isLocal ? ' *' : ''}`,
    state,
    forMs === null ? '' : formatAge(forMs),
    flows === null ? '' : String(flows),
    reason,
  ]);
  const all = [[...titles], ...rows];
  const widths = titles.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all.map((row) => {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === rightColumn ? cell.padStart(width) : cell.padEnd(width);
    });
    return `  ${cells.join('  ')}`.trimEnd();
  });
}

function formatFoot(status: HostStatus): string[] {
  const { assessment, vips } = status;
  const drift = [
    ...assessment.missingSwitches.map(({ name }) => `${name} is 0`),
    ...describeDrift(assessment.plan),
  ];
  const [first = 'none', ...more] = drift;
  const hasLocal = vips.some(({ backends }) => backends.some(({ isLocal }) => isLocal));
  return [
    ...describeKeepalived(vips).map((text) => `keepalived  ${text}`),
    `agent       ${describeAgent(status)}`,
    `kube-proxy  ${describeKubeProxy(assessment.observation).replace('kube-proxy: ', '')}`,
    `drift       ${first}`,
    ...more.map((line) => `            ${line}`),
    ...(hasLocal ? ['* this node'] : []),
  ];
}

function describeAgent({ agent, activity }: HostStatus): string {
  if (agent === null) return 'NOT RUNNING: the rules stay, nobody repairs them';
  const looked = activity?.lookedMsAgo ?? null;
  const parts = [
    `running, pid ${agent.pid}, since ${agent.since}`,
    ...(looked === null
      ? []
      : [`last look ${looked < 1000 ? `${Math.round(looked)} ms` : formatAge(looked)} ago`]),
    ...(activity === null ? [] : [`${activity.writes} write${activity.writes === 1 ? '' : 's'}`]),
  ];
  return parts.join(' · ');
}

/** The instances of the VIPs, each once. */
function describeKeepalived(vips: readonly VipStatus[]): string[] {
  const texts = vips.map((vip) => {
    const { instance } = vip.keepalived;
    if (!isKeepalivedSeen(vip)) return 'none is seen here';
    const state = toVrrpState(vip) ?? 'running, state not known';
    const parts = [vip.vrrp === null ? state : `${state} for ${formatAge(vip.vrrp.forMs)}`];
    if (instance !== null) parts.push(`vrid ${instance.vrid}`);
    if (instance !== null && instance.priority !== null) parts.push(`priority ${instance.priority}`);
    return parts.join(' · ');
  });
  return [...new Set(texts)];
}

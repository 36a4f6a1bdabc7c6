import { formatAge } from '../../../lib/text/age.ts';
import { type ServiceDetails } from '../../services/api-services.ts';
import { listNodes, type NodeOfService } from '../../services/list-nodes.ts';
import { type NodeDrain, type PodView } from '../../services/list-pods.ts';
import { shorten } from '../../services/judge-service.ts';
import { type ServiceView } from '../../services/services-view.ts';
import { type DeviceView } from '../../services/view-devices.ts';
import { layOutParts, layOutText, type Part } from '../text/lay-out.ts';
import { plainScreen, type Screen } from '../text/screen.ts';
import { formatSince } from '../text/since.ts';
import { type Column, formatTable } from '../text/table.ts';
import { formatDevices } from './device-table.ts';
import { describeGate, listNotes, nameAddress, nameHolder, paintState } from './services.ts';

const margin = '  ';

/** What `vipnat services NAMESPACE/NAME` prints: the answer and the reason, then addresses, endpoints, nodes and events. */
export function formatService(details: ServiceDetails, nowMs: number, screen: Screen = plainScreen): string {
  const { service, view, events } = details;
  const blocks = [
    formatHead(service, nowMs, screen),
    formatBlock(['ADDRESS', 'SEAT', 'HOLDER', 'MAY HOLD IT'], listAddressRows(service), screen),
    formatBlock(['ENDPOINT', 'PORTS', 'NODE', 'STATE'], listPodRows(service, nowMs), screen),
    formatBlock(['MEMBER', 'DEVICE', 'STATE'], listMemberRows(service, nowMs), screen),
    formatBlock(
      ['NODE', 'MODE', 'HEARD', 'PROGRAMMED'],
      listNodes(service, view.reports).map(toNodeRow),
      screen,
    ),
    formatDevices(listDevices(service), nowMs, screen, margin),
    formatEvents(events, nowMs, screen),
    listNotes(view, nowMs).flatMap((note) => layOutText('', note, screen)),
  ];
  const shown = blocks.filter((block) => block.length > 0);
  return `${shown.map((block) => block.join('\n')).join('\n\n')}\n`;
}

function formatHead(
  { key, state, since, why, service }: ServiceView,
  nowMs: number,
  screen: Screen,
): string[] {
  const { externalTrafficPolicy, ports } = service.spec;
  const age = formatSince(since, nowMs);
  const parts: Part[] = [
    paintState(state),
    ...(age === '' ? [] : [{ text: `since ${age}` }]),
    { text: (ports ?? []).map(({ port, protocol }) => `${port}/${protocol}`).join(', ') },
    { text: `policy ${externalTrafficPolicy}` },
  ];
  return [
    ...layOutParts(`${key}   `, parts, screen),
    ...(why === null ? [] : layOutText('  because ', why, screen)),
  ];
}

function formatBlock(
  titles: readonly string[],
  rows: readonly (readonly Part[])[],
  screen: Screen,
): string[] {
  const columns: Column[] = titles.map((title) => ({ title }));
  return rows.length === 0 ? [] : formatTable(columns, rows, screen, margin);
}

function listAddressRows({ addresses }: ServiceView): Part[][] {
  return addresses.map((one) => [
    { text: nameAddress(one) },
    { text: one.seat ?? 'none' },
    { text: nameHolder(one), tone: one.holders.length === 1 || one.device !== null ? 'good' : 'bad' },
    { text: one.device === null ? one.nodes.join(', ') || 'no node' : 'its units' },
  ]);
}

function listPodRows({ pods }: ServiceView, nowMs: number): Part[][] {
  return pods.map((pod) => [
    { text: pod.address },
    { text: pod.ports },
    { text: pod.node ?? '' },
    {
      text: [describePod(pod, nowMs), ...describeDrain(pod, nowMs)].join(', '),
      tone: pod.state === 'ready' && pod.draining === null ? 'good' : 'doubtful',
    },
  ]);
}

function describePod({ state, isServingLast, gate, draining }: PodView, nowMs: number): string {
  if (gate !== null) return `${state}, ${describeGate(gate, nowMs)}`;
  if (draining !== null) return state === 'ready' ? 'draining' : state;
  return state === 'ending' && isServingLast ? 'ending, still serves' : state;
}

function describeDrain({ draining }: PodView, nowMs: number): string[] {
  if (draining === null) return [];
  const { since, connections, nodes } = draining;
  const left =
    connections === null
      ? []
      : [`${connections} connection${connections === 1 ? '' : 's'} left${describeNodes(nodes)}`];
  return [`no new connections for ${formatSince(since, nowMs)}`, ...left];
}

/** Where they are; nothing where none is left. */
function describeNodes(nodes: readonly NodeDrain[]): string {
  const counted = nodes.map(({ node, connections }) => ({ node, count: connections ?? 0 }));
  const busy = counted.filter(({ count }) => count > 0).sort((one, other) => other.count - one.count);
  return busy.length === 0 ? '' : ` (${shorten(busy.map(({ node, count }) => `${node}: ${count}`))})`;
}

/** What drains on devices: a member is a pod, or the port of a node. */
function listMemberRows({ devices }: ServiceView, nowMs: number): Part[][] {
  return devices.flatMap(({ draining }) =>
    draining.map(({ device, member, since, sessions }): Part[] => [
      { text: member },
      { text: device },
      { text: describeMember(sessions, formatSince(since, nowMs)), tone: 'doubtful' },
    ]),
  );
}

function describeMember(sessions: number | null, age: string): string {
  const left = sessions === null ? '' : `, ${sessions} session${sessions === 1 ? '' : 's'} left`;
  return `no new connections for ${age}${left}`;
}

function listDevices({ devices }: ServiceView): DeviceView[] {
  return devices.flatMap(({ view }) => view ?? []);
}

function toNodeRow({ node, report, isProgrammed }: NodeOfService): Part[] {
  const silentMs = report?.silentMs ?? null;
  return [
    { text: node },
    { text: report?.isLiving === true ? report.mode : '' },
    { text: silentMs === null ? 'never' : `${formatAge(silentMs)} ago` },
    judgeNode(isProgrammed, report?.isLiving === true),
  ];
}

function judgeNode(isProgrammed: boolean, isLiving: boolean): Part {
  if (!isLiving) return { text: 'no balancer', tone: 'bad' };
  return isProgrammed ? { text: 'yes', tone: 'good' } : { text: 'not reported yet', tone: 'doubtful' };
}

function formatEvents(events: ServiceDetails['events'], nowMs: number, screen: Screen): string[] {
  if (events === null) return layOutText('', 'events: these credentials may not list events', screen);
  const rows = events.map(({ at, type, reason, message, count }): Part[] => [
    { text: `${formatSince(at, nowMs)} ago` },
    { text: reason, tone: type === 'Normal' ? undefined : 'doubtful' },
    { text: count === 1 ? message : `${message} (${count} times)` },
  ]);
  return formatBlock(['SEEN', 'EVENT', 'WHAT'], rows, screen);
}

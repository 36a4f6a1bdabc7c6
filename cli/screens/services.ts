import type { ServiceDetails } from '../services/read.ts';
import {
  type Screen,
  plainScreen,
  layOutText,
  formatSince,
  type Part,
  layOutParts,
  formatTable,
  type Tone,
  layOutTable,
  keepTogether,
  joinLines,
  count,
  describeNoAnswer,
} from '../output.ts';
import { listNodes, type NodeOfService } from '../services/read-view.ts';
import {
  type ServiceView,
  type PodView,
  type NodeDrain,
  type DeviceView,
  type ServiceState,
  type ServicesView,
  type AddressView,
  type GateView,
} from '../services/view.ts';
import { formatAge, shorten } from '../../lib/text.ts';

const margin = '  ';

/** What `vipnat services NAMESPACE/NAME` prints: the answer and the reason, then addresses, endpoints, nodes and events. */
export function formatService(details: ServiceDetails, nowMs: number, screen: Screen = plainScreen): string {
  const { service, view, events } = details;
  const devices = service.devices.flatMap((one) => one.view ?? []);
  const nodes = listNodes(service, view.reports);
  const blocks = [
    formatHead(service, nowMs, screen),
    formatBlock(['ADDRESS', 'SEAT', 'HOLDER', 'MAY HOLD IT'], listAddressRows(service), screen),
    formatBlock(['ENDPOINT', 'PORTS', 'NODE', 'STATE'], listPodRows(service, nowMs), screen),
    formatBlock(['MEMBER', 'DEVICE', 'STATE'], listMemberRows(service, nowMs), screen),
    formatBlock(['NODE', 'MODE', 'HEARD', 'PROGRAMMED'], nodes.map(toNodeRow), screen),
    formatDevices(devices, nowMs, screen, margin),
    formatEvents(events, nowMs, screen),
    listNotes(view, nowMs).flatMap((note) => layOutText('', note, screen)),
  ];
  const shown = blocks.filter((block) => block.length > 0);
  return `${shown.map((block) => block.join('\n')).join('\n\n')}\n`;
}

function formatHead(view: ServiceView, nowMs: number, screen: Screen): string[] {
  const { key, state, since, why, service } = view;
  const { externalTrafficPolicy, ports } = service.spec;
  const age = formatSince(since, nowMs);
  const parts: Part[] = [
    paintState(state),
    ...(age === '' ? [] : [`since ${age}`]),
    (ports ?? []).map(({ port, protocol }) => `${port}/${protocol}`).join(', '),
    `policy ${externalTrafficPolicy}`,
  ];
  return [
    ...layOutParts(`${key}   `, parts, screen),
    ...(why === null ? [] : layOutText('  because ', why, screen)),
  ];
}

function formatBlock(titles: readonly string[], rows: readonly (readonly Part[])[], screen: Screen) {
  return rows.length === 0 ? [] : formatTable(titles, rows, screen, margin);
}

function listAddressRows({ addresses }: ServiceView): Part[][] {
  return addresses.map((one) => [
    nameAddress(one),
    one.seat ?? 'none',
    { text: nameSeatHolder(one), tone: one.seatHolders.length === 1 || one.device !== null ? 'good' : 'bad' },
    one.device === null ? one.nodes.join(', ') || 'no node' : 'its units',
  ]);
}

function listPodRows({ pods }: ServiceView, nowMs: number): Part[][] {
  return pods.map((pod) => [
    pod.address,
    pod.ports,
    pod.node ?? '',
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
    connections === null ? [] : [`${count(connections, 'connection')} left${describeNodes(nodes)}`];
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
  return devices.flatMap(({ name, draining }) =>
    draining.map(({ member, since, sessions = null }): Part[] => {
      const left = sessions === null ? '' : `, ${count(sessions, 'session')} left`;
      const rest = `no new connections for ${formatSince(since, nowMs)}${left}`;
      return [member, name, { text: rest, tone: 'doubtful' }];
    }),
  );
}

function toNodeRow({ node, report, isProgrammed }: NodeOfService): Part[] {
  const msSinceRenewal = report?.msSinceRenewal ?? null;
  return [
    node,
    report?.isLiving === true ? report.mode : '',
    msSinceRenewal === null ? 'never' : `${formatAge(msSinceRenewal)} ago`,
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
    `${formatSince(at, nowMs)} ago`,
    { text: reason, tone: type === 'Normal' ? undefined : 'doubtful' },
    count === 1 ? message : `${message} (${count} times)`,
  ]);
  return formatBlock(['SEEN', 'EVENT', 'WHAT'], rows, screen);
}

const columns = ['SERVICE', 'ADDRESS', 'HOLDER', 'PODS', '>SINCE', 'STATE'];

const stateToTone: Readonly<Record<ServiceState, Tone>> = {
  ready: 'good',
  leaving: 'doubtful',
  pending: 'bad',
  'not served': 'bad',
  'no pods': 'bad',
};

/** What `vipnat services` prints: each Service, the reason below one that does not work, then what all of them depend on. */
export function formatServices(view: ServicesView, nowMs: number, screen: Screen = plainScreen): string {
  const notes = [...listGateNotes(view, nowMs), ...listNotes(view, nowMs)];
  const foot = [...notes, summarize(view)].flatMap((note) => layOutText('', note, screen));
  const table = view.services.length === 0 ? [] : [...formatRows(view, nowMs, screen), ''];
  const devices = view.devices.length === 0 ? [] : [...formatDevices(view.devices, nowMs, screen), ''];
  return joinLines([...table, ...devices, ...foot]);
}

function formatRows({ services }: ServicesView, nowMs: number, screen: Screen): string[] {
  const blocks = services.map((service) => toRows(service, nowMs));
  const { titles, rows } = layOutTable(columns, blocks.flat(), screen);
  const left = [...rows];
  const lines = services.flatMap(({ why }, index) => [
    ...left.splice(0, blocks[index]?.length ?? 0).flat(),
    ...(why === null ? [] : layOutText('  because ', why, screen)),
  ]);
  return [titles, ...lines];
}

/** One row for each address. */
function toRows({ key, addresses, pods, devices, since, state }: ServiceView, nowMs: number): Part[][] {
  const [first, ...more] = addresses;
  return [
    [
      key,
      first === undefined ? 'none' : nameAddress(first),
      first === undefined ? nameWanted(devices) : nameSeatHolder(first),
      countPods(pods, devices),
      formatSince(since, nowMs),
      paintState(state),
    ],
    ...more.map((one) => ['', nameAddress(one), nameSeatHolder(one), '', '', '']),
  ];
}

/** Where it has no address yet, the device that is to have it. */
function nameWanted([device]: ServiceView['devices']): string {
  return device === undefined ? '' : `device ${device.name}`;
}

/** A state as people see it: in capitals where something does not work. */
function paintState(state: ServiceState): Part {
  const tone = stateToTone[state];
  return { text: tone === 'bad' ? state.toUpperCase() : state, tone };
}

/** An address that the Service's status does not have yet, or no longer, is in brackets. */
function nameAddress({ address, isPublished }: AddressView): string {
  return isPublished ? address : `(${address})`;
}

/** Who holds an address, or which device has it; how such a node balances is said where its own table does not count. */
function nameSeatHolder({ seatHolders, device }: AddressView): string {
  if (device !== null) return `device ${device}`;
  const names = seatHolders.map(({ node, mode }) => (mode === 'direct' ? node : `${node} (${mode})`));
  return names.length === 0 ? 'nobody' : names.join(' and ');
}

function countPods(pods: ServiceView['pods'], devices: ServiceView['devices']): string {
  const ofState = (wanted: string) => pods.filter(({ state }) => state === wanted).length;
  const [ready, ending] = [ofState('ready'), ofState('ending')];
  const all = ready + ofState('not ready');
  const gated = pods.filter(({ gate }) => gate !== null).length;
  const onDevices = devices.flatMap(({ draining }) => draining.map(({ sessions }) => sessions ?? 0));
  const onNodes = pods.map(({ draining }) => draining?.connections ?? 0);
  const left = [...onNodes, ...onDevices].reduce((sum, open) => sum + open, 0);
  return [
    ready === all ? String(ready) : `${ready} of ${all}`,
    ...(gated === 0 ? [] : [`${gated} gated`]),
    ...(ending === 0 ? [] : [`${ending} ending`]),
    ...(left === 0 ? [] : [`${left} open`]),
  ].join(', ');
}

/** Of how many pods that wait a screen has a line. */
const maxWaiting = 8;

/** The pods that wait for their gate, those that have waited longest first. */
function listGateNotes({ services }: ServicesView, nowMs: number): string[] {
  const all = services.flatMap(({ key, pods }) => pods.map(({ address, gate }) => ({ key, address, gate })));
  const waiting = new Map(
    all.flatMap(({ key, address, gate }) =>
      gate === null ? [] : [[gate.pod ?? `${address} of ${key}`, gate] as const],
    ),
  );
  const sorted = [...waiting].sort(([, one], [, other]) =>
    compareTexts(one.since ?? '~', other.since ?? '~'),
  );
  const lines = sorted.slice(0, maxWaiting).map(([name, gate]) => `${name} ${describeGate(gate, nowMs)}`);
  const rest = sorted.length - lines.length;
  return rest === 0 ? lines : [...lines, `${rest} more pods wait for their readiness gate`];
}

function compareTexts(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/** Since when a pod waits, and for whom, as a clause. */
function describeGate({ since, nodes }: GateView, nowMs: number): string {
  const age = formatSince(since, nowMs);
  const who = nodes.length === 0 ? '' : `, not reported by ${shorten(nodes)}`;
  return `waits for its readiness gate${age === '' ? '' : ` (${age})`}${who}`;
}

function summarize({ services }: ServicesView): string {
  if (services.length === 0) return 'no Service of vipnat: none has an address, and none waits for one';
  const counts = [...Map.groupBy(services, ({ state }) => state)].map(
    ([state, some]) => `${some.length} ${state}`,
  );
  return `${count(services.length, 'Service')}: ${counts.join(', ')}`;
}

const noPool = `there is no AddressPool. To make one: ${keepTogether('vipnat manifest services --pool RANGE')}, with all options that it had before`;

/** What Services depend on, as far as something is wrong with it. */
function listNotes(view: Omit<ServicesView, 'services'>, nowMs: number): string[] {
  const { controller, pools, devices, reports } = view;
  const living = reports.filter(({ isLiving }) => isLiving);
  return [
    ...describeController(controller),
    ...(pools.length === 0 && devices.length === 0 ? [noPool] : []),
    ...pools.flatMap(({ metadata, status }) =>
      (status?.conditions ?? [])
        .filter((one) => one.status === 'False')
        .map(({ message }) => `AddressPool ${metadata.name}: ${message.replace(/\.$/, '')}`),
    ),
    ...reports.filter(({ isLiving }) => !isLiving).map(describeNoAnswer),
    ...living.flatMap(({ node, mode }) => {
      if (mode === 'none') return [`${node} can serve no Service: it holds no address`];
      return mode === 'kube-proxy'
        ? [`${node}: kube-proxy balances, vipnat's table does not count there`]
        : [];
    }),
    ...living.flatMap(({ node, inUse }) =>
      inUse.map((address) => `another host on the network of ${node} answers for ${address}`),
    ),
    ...listUnresponsive(living, nowMs),
  ];
}

/** Nodes that do not answer one that holds addresses. By its clock: the age is about right. */
function listUnresponsive(living: ServicesView['reports'], nowMs: number): string[] {
  return living.flatMap(({ node, unresponsive = [] }) =>
    unresponsive.map(({ node: other, since }) => {
      const age = formatSince(since, nowMs);
      const detail = `${other} has not answered ${node}${age === '' ? '' : ` for ${age}`}`;
      return `${detail}: its pods get no new connection from ${node}`;
    }),
  );
}

function describeController({ isLeading, leader, msSinceRenewal }: ServicesView['controller']): string[] {
  if (isLeading) return [];
  if (msSinceRenewal === null)
    return ['no controller leads here: check --system-namespace, and that vipnat controller runs'];
  const who = leader === null ? 'the last controller' : leader;
  return [`no controller leads: ${who} renewed its Lease ${formatAge(msSinceRenewal)} ago`];
}

const deviceColumns = ['DEVICE', 'DRIVER', '>SERVICES', '>DRAINING', '>SINCE', 'STATE'];

/** A table of devices: below each its units, then what is to be said of it. Empty for none. */
function formatDevices(devices: readonly DeviceView[], nowMs: number, screen: Screen, indent = ''): string[] {
  if (devices.length === 0) return [];
  const own = devices.map((device) => toDeviceRow(device, nowMs));
  const { titles, rows } = layOutTable(deviceColumns, own, screen, indent);
  const lines = devices.flatMap((device, index) => [
    ...(rows[index] ?? []),
    ...device.units.flatMap((unit) => layOutText(`${indent}  `, describeUnit(unit), screen)),
    ...explainDevice(device).flatMap((text) => layOutText(`${indent}  because `, text, screen)),
  ]);
  return [titles, ...lines];
}

function toDeviceRow(device: DeviceView, nowMs: number): Part[] {
  const { name, driver, balancers, draining, since, isReady, reason } = device;
  const isFine = isReady === true && reason === 'Ready';
  return [
    name,
    driver,
    balancers === null ? '' : String(balancers),
    String(draining),
    formatSince(since, nowMs),
    isReady === true
      ? { text: isFine ? 'ready' : `ready, ${reason}`, tone: isFine ? 'good' : 'doubtful' }
      : { text: `NOT READY, ${reason}`, tone: 'bad' },
  ];
}

function describeUnit({ unit, role, isInSync, why }: DeviceView['units'][number]): string {
  const behind = isInSync === false && why === '' ? ', behind' : '';
  return `${unit} ${role}${behind}${why === '' ? '' : `: ${why}`}`;
}

function explainDevice({ isReady, reason, why, foreignChanges }: DeviceView): string[] {
  const waiting =
    foreignChanges.length === 0 ? [] : [`changes of other users wait: ${shorten(foreignChanges)}`];
  if (reason === 'ForeignChanges' && waiting.length > 0) return waiting;
  return [...(isReady === true && reason === 'Ready' ? [] : [why]), ...waiting];
}

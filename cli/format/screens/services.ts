import { formatAge } from '../../../lib/text/age.ts';
import { type AddressView, type ServiceState, type ServicesView } from '../../services/services-view.ts';
import { type ServiceView } from '../../services/services-view.ts';
import { layOutText, type Part, type Tone } from '../text/lay-out.ts';
import { plainScreen, type Screen } from '../text/screen.ts';
import { formatSince } from '../text/since.ts';
import { layOutTable } from '../text/table.ts';
import { keepTogether } from '../text/wrap.ts';
import { formatDevices } from './device-table.ts';
import { describeSilence } from './seats.ts';
import { shorten } from '../../services/judge-service.ts';
import { type GateView } from '../../services/list-pods.ts';

const columns = [
  { title: 'SERVICE' },
  { title: 'ADDRESS' },
  { title: 'HOLDER' },
  { title: 'PODS' },
  { title: 'SINCE', isRight: true },
  { title: 'STATE' },
] as const;

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
  return [...table, ...devices, ...foot].map((line) => `${line}\n`).join('');
}

function formatRows({ services }: ServicesView, nowMs: number, screen: Screen): string[] {
  const blocks = services.map((service) => toRows(service, nowMs));
  const { titles, rows } = layOutTable(columns, blocks.flat(), screen);
  let next = 0;
  const lines = services.flatMap(({ why }, index) => {
    const first = next;
    next += blocks[index]?.length ?? 0;
    return [
      ...rows.slice(first, next).flat(),
      ...(why === null ? [] : layOutText('  because ', why, screen)),
    ];
  });
  return [titles, ...lines];
}

/** One row for each address. */
function toRows({ key, addresses, pods, devices, since, state }: ServiceView, nowMs: number): Part[][] {
  const [first, ...more] = addresses;
  return [
    [
      { text: key },
      { text: first === undefined ? 'none' : nameAddress(first) },
      { text: first === undefined ? nameWanted(devices) : nameHolder(first) },
      { text: countPods(pods, devices) },
      { text: formatSince(since, nowMs) },
      paintState(state),
    ],
    ...more.map((one) => ['', nameAddress(one), nameHolder(one), '', '', ''].map((text) => ({ text }))),
  ];
}

/** Where it has no address yet, the device that is to have it. */
function nameWanted([device]: ServiceView['devices']): string {
  return device === undefined ? '' : `device ${device.name}`;
}

/** A state as people see it: in capitals where something does not work. */
export function paintState(state: ServiceState): Part {
  const tone = stateToTone[state];
  return { text: tone === 'bad' ? state.toUpperCase() : state, tone };
}

/** An address that the Service's status does not have yet, or no longer, is in brackets. */
export function nameAddress({ address, isPublished }: AddressView): string {
  return isPublished ? address : `(${address})`;
}

/** Who holds an address, or which device has it; how such a node balances is said where its own table does not count. */
export function nameHolder({ holders, device }: AddressView): string {
  if (device !== null) return `device ${device}`;
  const names = holders.map(({ node, mode }) => (mode === 'direct' ? node : `${node} (${mode})`));
  return names.length === 0 ? 'nobody' : names.join(' and ');
}

function countPods(pods: ServiceView['pods'], devices: ServiceView['devices']): string {
  const count = (wanted: string) => pods.filter(({ state }) => state === wanted).length;
  const [ready, ending] = [count('ready'), count('ending')];
  const all = ready + count('not ready');
  const gated = pods.filter(({ gate }) => gate !== null).length;
  const onDevices = devices.flatMap(({ draining }) => draining.map(({ sessions }) => sessions ?? 0));
  const onNodes = pods.map(({ draining }) => draining?.connections ?? 0);
  const left = [...onNodes, ...onDevices].reduce((sum, count) => sum + count, 0);
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
export function describeGate({ since, nodes }: GateView, nowMs: number): string {
  const age = formatSince(since, nowMs);
  const who = nodes.length === 0 ? '' : `, not reported by ${shorten(nodes)}`;
  return `waits for its readiness gate${age === '' ? '' : ` (${age})`}${who}`;
}

function summarize({ services }: ServicesView): string {
  if (services.length === 0) return 'no Service of vipnat: none has an address, and none waits for one';
  const counts = [...Map.groupBy(services, ({ state }) => state)].map(
    ([state, some]) => `${some.length} ${state}`,
  );
  return `${services.length} Service${services.length === 1 ? '' : 's'}: ${counts.join(', ')}`;
}

/** What Services depend on, as far as it is not as it should be. */
export function listNotes(
  { controller, pools, devices, reports }: Omit<ServicesView, 'services'>,
  nowMs: number,
): string[] {
  const living = reports.filter(({ isLiving }) => isLiving);
  return [
    ...describeController(controller),
    ...(pools.length === 0 && devices.length === 0
      ? [
          `there is no AddressPool. To make one: ${keepTogether('vipnat manifest services --pool RANGE')}, with all options that it had before`,
        ]
      : []),
    ...pools.flatMap(({ metadata, status }) =>
      (status?.conditions ?? [])
        .filter((one) => one.status === 'False')
        .map(({ message }) => `AddressPool ${metadata.name}: ${message.replace(/\.$/, '')}`),
    ),
    ...reports.filter(({ isLiving }) => !isLiving).map(describeSilence),
    ...living.flatMap(({ node, mode }) => {
      if (mode === 'none') return [`${node} can serve no Service: it holds no address`];
      return mode === 'kube-proxy'
        ? [`${node}: kube-proxy balances, vipnat's table does not count there`]
        : [];
    }),
    ...living.flatMap(({ node, inUse }) =>
      inUse.map((address) => `another host on the network of ${node} answers for ${address}`),
    ),
    ...listSilent(living, nowMs),
  ];
}

/** Nodes that do not answer one that holds addresses. By its clock: the age is about right. */
function listSilent(living: ServicesView['reports'], nowMs: number): string[] {
  return living.flatMap(({ node, silent = [] }) =>
    silent.map(({ node: other, since }) => {
      const age = formatSince(since, nowMs);
      const words = `${other} has not answered ${node}${age === '' ? '' : ` for ${age}`}`;
      return `${words}: its pods get no new connection from ${node}`;
    }),
  );
}

function describeController({ isLeading, holder, silentMs }: ServicesView['controller']): string[] {
  if (isLeading) return [];
  if (silentMs === null)
    return ['no controller leads here: check --namespace, and that vipnat controller runs'];
  const who = holder === null ? 'the last controller' : holder;
  return [`no controller leads: ${who} renewed its Lease ${formatAge(silentMs)} ago`];
}

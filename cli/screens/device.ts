import type { DeviceView } from '../services/view.ts';
import { shorten } from '../../lib/text.ts';
import { type Screen, layOutTable, layOutText, type Part, formatSince } from '../output.ts';

const columns = [
  { title: 'DEVICE' },
  { title: 'DRIVER' },
  { title: 'SERVICES', isRight: true },
  { title: 'DRAINING', isRight: true },
  { title: 'SINCE', isRight: true },
  { title: 'STATE' },
] as const;

/** A table of devices: below each its units, then what is to be said of it. Empty for none. */
export function formatDevices(
  devices: readonly DeviceView[],
  nowMs: number,
  screen: Screen,
  margin = '',
): string[] {
  if (devices.length === 0) return [];
  const { titles, rows } = layOutTable(
    columns,
    devices.map((device) => toRow(device, nowMs)),
    screen,
    margin,
  );
  const lines = devices.flatMap((device, index) => [
    ...(rows[index] ?? []),
    ...device.units.flatMap((unit) => layOutText(`${margin}  `, describeUnit(unit), screen)),
    ...describe(device).flatMap((text) => layOutText(`${margin}  because `, text, screen)),
  ]);
  return [titles, ...lines];
}

function toRow(
  { name, driver, balancers, draining, since, isReady, reason }: DeviceView,
  nowMs: number,
): Part[] {
  const isFine = isReady === true && reason === 'Ready';
  return [
    { text: name },
    { text: driver },
    { text: balancers === null ? '' : String(balancers) },
    { text: String(draining) },
    { text: formatSince(since, nowMs) },
    isReady === true
      ? { text: isFine ? 'ready' : `ready, ${reason}`, tone: isFine ? 'good' : 'doubtful' }
      : { text: `NOT READY, ${reason}`, tone: 'bad' },
  ];
}

function describeUnit({ unit, role, isInSync, why }: DeviceView['units'][number]): string {
  const behind = isInSync === false && why === '' ? ', behind' : '';
  return `${unit} ${role}${behind}${why === '' ? '' : `: ${why}`}`;
}

function describe({ isReady, reason, why, foreignChanges }: DeviceView): string[] {
  const waiting =
    foreignChanges.length === 0 ? [] : [`changes of other users wait: ${shorten(foreignChanges)}`];
  if (reason === 'ForeignChanges' && waiting.length > 0) return waiting;
  return [...(isReady === true && reason === 'Ready' ? [] : [why]), ...waiting];
}

import {
  type Change,
  type DeviceState,
  formatMember,
  type Owned,
  type UnitState,
} from '../../../lib/devices/driver.ts';
import { clean, layOutText, type Part, type Tone } from '../text/lay-out.ts';
import { type Screen } from '../text/screen.ts';
import { formatTable } from '../text/table.ts';

const listColumns = [
  { title: 'BALANCER' },
  { title: 'ADDRESSES' },
  { title: 'PORT' },
  { title: 'METHOD' },
  { title: 'MEMBERS' },
] as const;

/** What `vipnat device list` prints: a row for each listener. */
export function formatList(owned: readonly Owned[], screen: Screen): string {
  if (owned.length === 0) return 'no balancer: the device has none of this cluster\n';
  return toLines(formatTable(listColumns, owned.flatMap(toRows), screen));
}

function toRows({ balancer, memberToSessions }: Owned): Part[][] {
  const { id, addresses, listeners, method, affinityS } = balancer;
  const toMember = (member: (typeof listeners)[number]['members'][number]) => {
    const name = formatMember(member);
    const sessions = memberToSessions?.get(name);
    const weight = member.weight === 1 ? '' : ` weight ${member.weight}`;
    return `${name}${weight}${sessions === undefined ? '' : ` (${sessions} open)`}`;
  };
  const head = [`${id.namespace}/${id.name}`, addresses.map(({ text }) => text).join(', ') || 'none'];
  const affinity = affinityS === null ? '' : `, ${affinityS} s`;
  const rows = listeners.map(({ protocol, port, members }) => [
    ...head,
    `${protocol}/${port}`,
    `${method}${affinity}`,
    members.map(toMember).join(', ') || 'none',
  ]);
  const all = rows.length === 0 ? [[...head, 'none', method, 'none']] : rows;
  return all.map((row) => row.map((text) => ({ text })));
}

/** What `vipnat device plan` prints: a line for each change. */
export function formatPlan(changes: readonly Change[], screen: Screen): string {
  if (changes.length === 0) return 'Nothing to change.\n';
  const count = changes.length === 1 ? '1 change' : `${changes.length} changes`;
  return toLines([
    ...changes.map((change) => clean(describe(change), screen)),
    '',
    `${count}. vipnat wrote nothing.`,
  ]);
}

function describe({ object, before, after }: Change): string {
  if (before === null) return `+ ${object}: ${after ?? ''}`;
  return after === null ? `- ${object}: ${before}` : `~ ${object}: ${before} → ${after}`;
}

const stateColumns = [{ title: 'UNIT' }, { title: 'ROLE' }, { title: 'IN SYNC' }, { title: 'WHY' }] as const;

const roleToTone: Readonly<Record<UnitState['role'], Tone>> = {
  active: 'good',
  standby: 'good',
  unknown: 'doubtful',
  silent: 'bad',
};

/** What `vipnat device state` prints: a row for each unit, and what other users have not applied. */
export function formatState({ units, foreignChanges }: DeviceState, screen: Screen): string {
  const rows = units.map(({ unit, role, isInSync, why }) => [
    { text: unit },
    { text: role, tone: roleToTone[role] },
    {
      text: isInSync === null ? 'unknown' : isInSync ? 'yes' : 'no',
      ...(isInSync === false && { tone: 'bad' as const }),
    },
    { text: why },
  ]);
  const foreign = foreignChanges.flatMap((line) => layOutText('  ', line, screen));
  const notes =
    foreign.length === 0 ? [] : ['', 'Changes of other users that wait to be applied:', ...foreign];
  return toLines([...formatTable(stateColumns, rows, screen), ...notes]);
}

function toLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

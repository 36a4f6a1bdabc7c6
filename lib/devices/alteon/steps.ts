import { type Change } from '../driver.ts';
import { type Fields, ofTable, type Rows, type TableId, tableIds, tables } from './tables.ts';

/** One request that changes what waits to be applied. */
export interface Step {
  /** The table of the row that it is about. */
  readonly table: TableId;
  readonly method: 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body: Fields | null;
  readonly change: Change;
  /** Whether it makes something that was not there. */
  readonly isNew: boolean;
  /** Those of a lower one go first, whatever they are about. */
  readonly phase: number;
}

/** A member of a group that gets connections, and one whose connections end by themselves. Source: the MIB, slbNewCfgEnhGroupRealServerState. */
export const memberStates = { enabled: 1, drained: 3 } as const;

/** In this order: what is new, what changes, what drains, what goes. */
const phases = { create: 0, change: 100, drain: 200, remove: 300 };

/** What goes begins with what connections come by. */
const removalOrder: readonly TableId[] = [
  ...(['virtualServer', 'virtualService', 'groupMember', 'group', 'realServer', 'realPort'] as const),
];

interface Row {
  readonly id: TableId;
  readonly key: string;
}

/** What makes the one of the other. Columns that are not wanted stay as they are. Of what is not mentioned in `wanted`, nothing stays. */
export function planSteps(current: Rows, wanted: Rows): readonly Step[] {
  const planned = tableIds.flatMap((id) => [
    ...[...ofTable(wanted, id)].flatMap(([key, fields]) => {
      const before = ofTable(current, id).get(key);
      return before === undefined ? create({ id, key }, fields) : change({ id, key }, before, fields);
    }),
    ...[...ofTable(current, id)]
      .filter(([key]) => !ofTable(wanted, id).has(key))
      .flatMap(([key, fields]) => remove({ id, key }, fields, wanted, current)),
  ]);
  return sortSteps(planned);
}

/** The order in which steps are taken, also those of several plans. */
export function sortSteps(steps: readonly Step[]): readonly Step[] {
  return steps.toSorted((one, other) => one.phase - other.phase);
}

function create(row: Row, fields: Fields): readonly Step[] {
  const { id, key } = row;
  const phase = phases.create + tableIds.indexOf(id);
  const step = { table: id, path: toPath(row), change: describe(row, null, fields), isNew: true, phase };
  if (id === 'groupMember') {
    const { State = memberStates.enabled } = fields;
    const [group = '', server = ''] = key.split('/');
    const path = toPath({ id: 'group', key: group });
    const added = { ...step, method: 'PUT' as const, path, body: { AddServer: server } };
    return State === memberStates.enabled
      ? [added]
      : [added, ...change(row, { State: memberStates.enabled }, fields)];
  }
  // A row of the seventh part comes with that of its service.
  const method = id === 'serviceGroup' ? 'PUT' : 'POST';
  return [{ ...step, method, body: fields }];
}

function change(row: Row, before: Fields, fields: Fields): readonly Step[] {
  const old = new Map(Object.entries(before));
  const changed = Object.entries(fields).filter(([column, value]) => old.get(column) !== value);
  if (changed.length === 0) return [];
  const body: Fields = Object.fromEntries(changed);
  const was: Fields = Object.fromEntries(changed.map(([column]) => [column, old.get(column) ?? '']));
  const isDrain = row.id === 'groupMember' && body.State === memberStates.drained;
  const step = {
    ...{ table: row.id, method: 'PUT' as const, path: toPath(row), body },
    change: describe(row, was, body),
    ...{ isNew: false, phase: isDrain ? phases.drain : phases.change },
  };
  return [step];
}

function remove(row: Row, fields: Fields, wanted: Rows, current: Rows): readonly Step[] {
  const { id, key } = row;
  const [first = '', second = ''] = key.split('/');
  const whole = goesWith[id];
  if (id === 'serviceGroup') return [];
  if (whole !== undefined && ofTable(current, whole).has(first) && !ofTable(wanted, whole).has(first))
    return [];
  const phase = phases.remove + removalOrder.indexOf(id);
  const step = { table: id, path: toPath(row), change: describe(row, fields, null), isNew: false, phase };
  if (id !== 'groupMember') return [{ ...step, method: 'DELETE', body: null }];
  const path = toPath({ id: 'group', key: first });
  return [{ ...step, method: 'PUT', path, body: { RemoveServer: second } }];
}

/** What goes when another row does needs no request of its own. */
const goesWith: Readonly<Partial<Record<TableId, TableId>>> = {
  ...{ virtualService: 'virtualServer', groupMember: 'group', realPort: 'realServer' },
};

function toPath({ id, key }: Row): string {
  return `/config/SlbNewCfg${tables[id].name}/${key.split('/').map(encodeURIComponent).join('/')}`;
}

function describe({ id, key }: Row, before: Fields | null, after: Fields | null): Change {
  const format = (fields: Fields | null) =>
    fields === null
      ? null
      : Object.entries(fields)
          .map(([column, value]) => `${column}=${value}`)
          .join(' ');
  return { object: `${tables[id].words} ${key}`, before: format(before), after: format(after) };
}

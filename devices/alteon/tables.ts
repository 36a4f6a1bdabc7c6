import { type BalancerId, type Listener, formatMark, parseMark, type Change } from '../driver.ts';
import { type Address, parseAddress, toNumber } from '../../lib/net.ts';

/**
 * The name of an object of vipnat: the mark, then whose it is. An Alteon takes 255 characters (slbNewCfgEnhRealServerIndex); the longest of these
 * has 254: a mark of 212, `_tcp_65534`, an IPv6 address as 25 digits, and `_65534`.
 */
export interface ParsedName extends Pick<Listener, 'protocol' | 'port'> {
  readonly id: BalancerId;
}

/** `MARK_tcp_443`: a listener's group. */
export function nameGroup(id: BalancerId, { protocol, port }: Omit<ParsedName, 'id'>): string {
  return `${formatMark(id)}_${protocol}_${port}`;
}

/** Whose listener an object belongs to; null for what is not of this cluster, or has no such name. */
export function parseName(name: string, cluster: string): ParsedName | null {
  const parsed = parseMark(name, cluster);
  const [protocol, port = ''] = parsed?.rest ?? [];
  if (parsed === null || (protocol !== 'tcp' && protocol !== 'udp') || !/^\d{1,5}$/.test(port)) return null;
  return { id: parsed.id, protocol, port: Number(port) };
}

/** An address in a name. IPv6 in base 36: colons have a meaning of their own in formulas of groups, and 39 characters more than names have room for. */
export function formatToken(address: Address): string {
  return address.family === 'ipv4' ? address.text : toNumber(address).toString(36).padStart(25, '0');
}

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

/**
 * The tables of an Alteon that a balancer is made of. Source: Alteon's MIB (ALTEON-CHEETAH-LAYER4-MIB), whose tables its REST interface has
 * under `/config`: a column's name is that of the MIB without what all columns of its table begin with.
 */

interface Table {
  /** After `SlbNewCfg`, for what waits to be applied, or `SlbCurCfg`, for what is in force. */
  readonly name: string;
  /** The columns that are its index, and follow its name in a path. */
  readonly keys: readonly string[];
  /** The columns that vipnat writes, with what they hold. Others stay as they are. */
  readonly columns: Readonly<Record<string, 'text' | 'number'>>;
  /** What people call a row. */
  readonly title: string;
}

/** In the order in which a balancer is made: each row needs those before it. */
export const tables = {
  realServer: {
    name: 'EnhRealServerTable',
    keys: ['Index'],
    columns: {
      ...{ IpVer: 'number', IpAddr: 'text', Ipv6Addr: 'text' },
      ...{ Weight: 'number', State: 'number', Name: 'text' },
    },
    title: 'real server',
  },
  realPort: {
    name: 'EnhRealServPortTable',
    keys: ['Index', 'PortIndex'],
    columns: { RealPort: 'number' },
    title: 'port of real server',
  },
  group: {
    name: 'EnhGroupTable',
    keys: ['Index'],
    columns: { Metric: 'number', HealthID: 'text', IpVer: 'number', Name: 'text' },
    title: 'group',
  },
  groupMember: {
    name: 'EnhGroupRealServerTable',
    keys: ['RealServGroupIndex', 'ServIndex'],
    columns: { State: 'number' },
    title: 'member of group',
  },
  virtualServer: {
    name: 'EnhVirtServerTable',
    keys: ['VirtServerIndex'],
    columns: {
      ...{ VirtServerIpVer: 'number', VirtServerIpAddress: 'text', VirtServerIpv6Addr: 'text' },
      ...{ VirtServerState: 'number', VirtServerVname: 'text' },
    },
    title: 'virtual server',
  },
  virtualService: {
    name: 'EnhVirtServicesTable',
    keys: ['ServIndex', 'Index'],
    columns: {
      ...{ VirtPort: 'number', RealPort: 'number', UDPBalance: 'number' },
      ...{ DBind: 'number', PBind: 'number' },
    },
    title: 'virtual service',
  },
  serviceGroup: {
    name: 'EnhVirtServicesSeventhPartTable',
    keys: ['ServSeventhPartIndex', 'SeventhPartIndex'],
    columns: { RealGroup: 'text', PersistentTimeOut: 'number', ProxyIpMode: 'number' },
    title: 'group of virtual service',
  },
} as const satisfies Record<string, Table>;

/** One of them. */
export type TableId = keyof typeof tables;

/** All of them, in their order. */
export const tableIds = Object.keys(tables) as readonly TableId[];

type ColumnOf<Id extends TableId> = Id extends TableId ? keyof (typeof tables)[Id]['columns'] : never;

/** A column that vipnat writes, or by which a group gets and loses members. */
type Column = ColumnOf<TableId> | 'AddServer' | 'RemoveServer';

/** What a row has in the columns that vipnat writes. */
export type Fields = Readonly<Partial<Record<Column, string | number>>>;

/** Rows of all tables by their keys, as a path has them: `GROUP/SERVER`. */
export type Rows = Readonly<Record<TableId, ReadonlyMap<string, Fields>>>;

/** Tables without rows. */
export function makeRows(): Readonly<Record<TableId, Map<string, Fields>>> {
  const rows = tableIds.map((id) => [id, new Map<string, Fields>()] as const);
  return Object.fromEntries(rows) as ReturnType<typeof makeRows>;
}

/** The key of a row as the unit printed it; null where it has none. */
export function readKey(id: TableId, row: Readonly<Record<string, unknown>>): string | null {
  const parts = tables[id].keys.map((key) => readColumn(row, key));
  return parts.includes('') ? null : parts.join('/');
}

/** What the unit printed of a row. The address that is not of the row's family means nothing, and is left out. */
export function readFields(id: TableId, row: Readonly<Record<string, unknown>>): Fields {
  const columns: Readonly<Record<string, 'text' | 'number'>> = tables[id].columns;
  const there = Object.entries(columns).filter(([column]) => (row[column] ?? null) !== null);
  const read = (column: string, kind: string) =>
    kind === 'text' ? readColumn(row, column) : Number(row[column]);
  return dropOtherFamily(Object.fromEntries(there.map(([column, kind]) => [column, read(column, kind)])));
}

function dropOtherFamily(fields: Fields): Fields {
  const { IpAddr, Ipv6Addr, VirtServerIpAddress, VirtServerIpv6Addr, ...others } = fields;
  const isIpv6 = (others.IpVer ?? others.VirtServerIpVer) === 2;
  const kept = isIpv6 ? { Ipv6Addr, VirtServerIpv6Addr } : { IpAddr, VirtServerIpAddress };
  const addresses = Object.entries(kept).flatMap(([column, text]) =>
    text === undefined ? [] : [[column, parseAddress(String(text))?.text ?? text] as const],
  );
  return { ...others, ...Object.fromEntries(addresses) };
}

/** As text; empty for what is none. A number is an index, too, where it is one. */
export function readColumn(row: Readonly<Record<string, unknown>>, column: string): string {
  const value = row[column];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** Rows of one cluster, by the marks that their names begin with. */
export function splitByMark(rows: Rows): ReadonlyMap<string, Rows> {
  const markToRows = new Map<string, ReturnType<typeof makeRows>>();
  for (const id of tableIds)
    for (const [key, fields] of rows[id]) {
      // A mark has four underscores.
      const [mark = key] = /^(?:[^_]*_){4}[^_/]*/.exec(key) ?? [];
      const own = markToRows.get(mark) ?? makeRows();
      markToRows.set(mark, own);
      own[id].set(key, fields);
    }
  return markToRows;
}

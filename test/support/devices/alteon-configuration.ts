/** What one of an Alteon's configurations has, and what its MIB says that it may have. Written from the MIB, not from the driver. */

export type AlteonRow = Record<string, string | number>;

/** By the name of a table without its prefix, then by key. */
export type AlteonConfiguration = Map<string, Map<string, AlteonRow>>;

interface Schema {
  readonly keys: readonly string[];
  readonly defaults: Readonly<AlteonRow>;
  readonly ranges: Readonly<Record<string, readonly [number, number]>>;
  /** The table and the part of the key without which a row cannot be. */
  readonly parent?: string;
}

export const schemas: Readonly<Record<string, Schema>> = {
  EnhRealServerTable: {
    keys: ['Index'],
    defaults: {
      ...{ IpAddr: '0.0.0.0', Ipv6Addr: '', IpVer: 1, Weight: 1, MaxConns: 0, TimeOut: 10 },
      ...{ State: 3, Type: 1, Name: '' },
    },
    ranges: { Weight: [1, 48], State: [2, 6], IpVer: [1, 2] },
  },
  EnhRealServPortTable: {
    keys: ['Index', 'PortIndex'],
    defaults: { RealPort: 0 },
    ranges: { RealPort: [5, 65_534] },
    parent: 'EnhRealServerTable',
  },
  EnhGroupTable: {
    keys: ['Index'],
    defaults: { Metric: 2, HealthID: 'tcp', IpVer: 1, Slowstart: 0, Name: '' },
    ranges: { Metric: [1, 9], IpVer: [1, 3] },
  },
  EnhGroupRealServerTable: {
    keys: ['RealServGroupIndex', 'ServIndex'],
    defaults: { State: 1 },
    ranges: { State: [1, 4] },
    parent: 'EnhGroupTable',
  },
  EnhVirtServerTable: {
    keys: ['VirtServerIndex'],
    defaults: {
      ...{ VirtServerIpAddress: '0.0.0.0', VirtServerIpVer: 1, VirtServerIpv6Addr: '' },
      ...{ VirtServerState: 3, VirtServerVname: '', VirtServerDname: '' },
    },
    ranges: { VirtServerState: [2, 3], VirtServerIpVer: [1, 2] },
  },
  EnhVirtServicesTable: {
    keys: ['ServIndex', 'Index'],
    defaults: { VirtPort: 0, RealPort: 0, UDPBalance: 3, DBind: 2, PBind: 3, HttpSlb: 1 },
    ranges: {
      VirtPort: [1, 65_534],
      RealPort: [0, 65_534],
      UDPBalance: [2, 6],
      DBind: [1, 3],
      PBind: [2, 5],
    },
    parent: 'EnhVirtServerTable',
  },
  EnhVirtServicesSeventhPartTable: {
    keys: ['ServSeventhPartIndex', 'SeventhPartIndex'],
    defaults: { RealGroup: '', PersistentTimeOut: 10, ProxyIpMode: 0 },
    ranges: { PersistentTimeOut: [0, 32_768], ProxyIpMode: [0, 4] },
    parent: 'EnhVirtServicesTable',
  },
};

/** What goes with a row. */
const cascades: Readonly<Record<string, readonly string[]>> = {
  EnhRealServerTable: ['EnhRealServPortTable'],
  EnhGroupTable: ['EnhGroupRealServerTable'],
  EnhVirtServerTable: ['EnhVirtServicesTable', 'EnhVirtServicesSeventhPartTable'],
  EnhVirtServicesTable: ['EnhVirtServicesSeventhPartTable'],
};

const maxIndex = 255;

export function makeConfiguration(): AlteonConfiguration {
  return new Map(Object.keys(schemas).map((name) => [name, new Map<string, AlteonRow>()]));
}

export function readTable(configuration: AlteonConfiguration, table: string): Map<string, AlteonRow> {
  const rows = configuration.get(table);
  if (rows === undefined) throw new Error(`no table ${table}`);
  return rows;
}

/** What a unit says against it; null where it did it. */
export function writeRow(
  configuration: AlteonConfiguration,
  method: string,
  [table, ...key]: readonly [string, ...string[]],
  body: Readonly<AlteonRow>,
): string | null {
  const schema = schemas[table];
  if (schema?.keys.length !== key.length) return `${table} has no such row`;
  const rows = readTable(configuration, table);
  const name = key.join('/');
  if (method === 'DELETE') return deleteRow(configuration, table, name);
  if (rows.has(name) === (method === 'POST')) return `${table} ${name} cannot be written by ${method}`;
  const { AddServer, RemoveServer, ...columns } = body;
  const problem = findMissing(configuration, schema, key) ?? findBadColumn(schema, columns);
  if (problem !== null) return problem;
  rows.set(name, { ...schema.defaults, ...rows.get(name), ...columns });
  if (method === 'POST') addSeventhPart(configuration, table, name);
  if (AddServer !== undefined) return addMember(configuration, name, String(AddServer));
  return RemoveServer === undefined ? null : removeMember(configuration, name, String(RemoveServer));
}

function addSeventhPart(configuration: AlteonConfiguration, table: string, name: string): void {
  const seventh = 'EnhVirtServicesSeventhPartTable';
  if (table === 'EnhVirtServicesTable')
    readTable(configuration, seventh).set(name, { ...schemas[seventh]?.defaults });
}

function findMissing(configuration: AlteonConfiguration, { parent }: Schema, key: readonly string[]) {
  if (key.some((part) => part.length === 0 || part.length > maxIndex)) return 'index too long';
  const parentKey = parent === 'EnhVirtServicesTable' ? key.join('/') : (key[0] ?? '');
  const isThere = parent === undefined || readTable(configuration, parent).has(parentKey);
  return isThere ? null : `no ${parent} ${parentKey}`;
}

function findBadColumn({ ranges, defaults }: Schema, columns: Readonly<AlteonRow>): string | null {
  for (const [column, value] of Object.entries(columns)) {
    if (!(column in defaults)) return `no column ${column}`;
    const [min, max] = ranges[column] ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    const isNumber = typeof defaults[column] === 'number';
    if (isNumber && !(Number(value) >= min && Number(value) <= max))
      return `${column} ${value} is out of range`;
  }
  return null;
}

function addMember(configuration: AlteonConfiguration, group: string, server: string): string | null {
  const members = readTable(configuration, 'EnhGroupRealServerTable');
  if (!readTable(configuration, 'EnhRealServerTable').has(server)) return `no real server ${server}`;
  if (members.has(`${group}/${server}`)) return `real server ${server} is already in group ${group}`;
  members.set(`${group}/${server}`, { State: 1 });
  return null;
}

function removeMember(configuration: AlteonConfiguration, group: string, server: string): string | null {
  const isGone = readTable(configuration, 'EnhGroupRealServerTable').delete(`${group}/${server}`);
  return isGone ? null : `real server ${server} is not in group ${group}`;
}

function deleteRow(configuration: AlteonConfiguration, table: string, key: string): string | null {
  if (!readTable(configuration, table).delete(key)) return `${table} ${key} does not exist`;
  for (const child of cascades[table] ?? []) {
    const rows = readTable(configuration, child);
    for (const childKey of [...rows.keys()])
      if (childKey === key || childKey.startsWith(`${key}/`)) rows.delete(childKey);
  }
  return null;
}

/** Why it cannot be applied; null where it can. */
export function validate(configuration: AlteonConfiguration): string | null {
  for (const [key] of readTable(configuration, 'EnhGroupRealServerTable')) {
    const server = key.split('/')[1] ?? '';
    if (!readTable(configuration, 'EnhRealServerTable').has(server))
      return `Error: real server ${server} of ${key} is missing`;
  }
  for (const [key, { RealGroup }] of readTable(configuration, 'EnhVirtServicesSeventhPartTable')) {
    if (!readTable(configuration, 'EnhGroupTable').has(String(RealGroup)))
      return `Error: service ${key} has no group`;
  }
  for (const [key, { IpVer, IpAddr }] of readTable(configuration, 'EnhRealServerTable')) {
    if (IpVer === 1 && IpAddr === '0.0.0.0') return `Error: real server ${key} has no address`;
  }
  return findTwins(configuration);
}

/** Virtual servers with one address and port in common. No document says whether a unit takes them: the strictest would not. */
function findTwins(configuration: AlteonConfiguration): string | null {
  const taken = new Map<string, string>();
  for (const [key, { VirtPort, UDPBalance }] of readTable(configuration, 'EnhVirtServicesTable')) {
    const [name = ''] = key.split('/');
    const server = readTable(configuration, 'EnhVirtServerTable').get(name);
    const { VirtServerIpVer, VirtServerIpAddress, VirtServerIpv6Addr } = server ?? {};
    const address = VirtServerIpVer === 2 ? VirtServerIpv6Addr : VirtServerIpAddress;
    const place = [address, VirtPort, UDPBalance].join(' ');
    const other = taken.get(place) ?? name;
    if (other !== name) return `Error: virtual servers ${other} and ${name} have the same address and port`;
    taken.set(place, name);
  }
  return null;
}

const tableToMenu: Readonly<Record<string, string>> = {
  ...{ EnhRealServerTable: 'real', EnhRealServPortTable: 'real', EnhGroupTable: 'group' },
  ...{ EnhGroupRealServerTable: 'group', EnhVirtServerTable: 'virt', EnhVirtServicesTable: 'virt' },
  EnhVirtServicesSeventhPartTable: 'virt',
};

/** As commands: a line for each object, and what changes there. */
export function printDifference(before: AlteonConfiguration, after: AlteonConfiguration): string {
  const lines = Object.keys(schemas).flatMap((table) => {
    const [old, now] = [readTable(before, table), readTable(after, table)];
    return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) => {
      const [was, is] = [JSON.stringify(old.get(key)), JSON.stringify(now.get(key))];
      if (was === is) return [];
      const [name = '', part = ''] = key.split('/');
      return [
        `/c/slb/${tableToMenu[table] ?? ''} ${name}${part === '' ? '' : `/${part}`}`,
        `\t${now.has(key) ? is : 'del'}`,
      ];
    });
  });
  return lines.length === 0 ? '' : `/* Pending changes */\n${lines.join('\n')}\n`;
}

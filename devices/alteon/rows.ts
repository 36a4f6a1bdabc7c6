import {
  type Rows,
  splitByMark,
  tableIds,
  parseName,
  type ParsedName,
  type Fields,
  makeRows,
  nameGroup,
  formatToken,
  type TableId,
  type Step,
  tables,
} from './tables.ts';
import {
  type Owned,
  type BalancerId,
  parseMark,
  type Member,
  type Listener,
  type Balancer,
  type DeviceMethod,
  readAddresses,
  fitWeights,
  sumSessions,
  type Change,
  isOtherCluster,
  type DeviceSettings,
} from '../driver.ts';
import { type Address, parseAddress } from '../../lib/net.ts';
import type { AlteonOptions, AlteonSettings } from './client.ts';

/** What a unit has of a cluster, by the names of objects alone. */
interface Holdings extends Pick<DeviceSettings, 'cluster' | 'identity'> {
  /** In force. */
  readonly rows: Rows;
  /** By `GROUP/SERVER`: the state in which a member works, whatever is configured. */
  readonly memberToState: ReadonlyMap<string, number>;
  /** By real server. */
  readonly serverToSessions: ReadonlyMap<string, number>;
}

/** The balancers of a cluster. What is left of one has no addresses, or no listeners. A method that vipnat does not use is read as `rr`. */
export function readOwned(holdings: Holdings): readonly Owned[] {
  return [...splitByMark(holdings.rows)]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([mark, own]) => {
      const parsed = parseMark(mark, holdings.cluster);
      return parsed === null ? [] : [readBalancer(holdings, own, parsed.id)];
    });
}

function readBalancer(holdings: Holdings, own: Rows, id: BalancerId): Owned {
  const groups = [...own.group];
  const listeners = groups.flatMap(([name]) => {
    const parsed = parseName(name, holdings.cluster);
    return parsed === null ? [] : [readListener(holdings, name, parsed)];
  });
  const servers = [...own.virtualServer];
  const texts = servers.map(([, fields]) =>
    String(fields.VirtServerIpAddress ?? fields.VirtServerIpv6Addr ?? ''),
  );
  const balancer: Balancer = {
    id,
    addresses: readAddresses(texts),
    listeners: listeners.map(({ listener }) => listener),
    method: readMethod(groups[0]?.[1]),
    affinityS: readAffinity(own, servers[0]),
  };
  const memberToSessions = sumSessions(listeners.flatMap(({ sessions }) => sessions));
  return { balancer, otherCluster: findOtherCluster(own, holdings.identity), memberToSessions };
}

/** The identity of another cluster of the same name that has written these rows of one mark. Any other name of a group is a user's. */
export function findOtherCluster({ group }: Rows, identity: DeviceSettings['identity']): string | undefined {
  const written = [...group.values()].map(({ Name }) => /^cluster ([\da-f]{8})$/.exec(String(Name))?.[1]);
  return written.find((one) => isOtherCluster(one, identity));
}

/** A listener, and the open connections of each of its members. */
function readListener(holdings: Holdings, group: string, { protocol, port }: ParsedName) {
  const { rows, memberToState, serverToSessions } = holdings;
  const found = [...rows.groupMember].flatMap(([key, { State }]) => {
    const [of, server = ''] = key.split('/');
    const fields = rows.realServer.get(server);
    const address = parseAddress(String(fields?.IpAddr ?? fields?.Ipv6Addr ?? ''));
    if (of !== group || fields === undefined || address === null) return [];
    const isDrained = (memberToState.get(key) ?? State) !== memberStates.enabled;
    return [{ server, fields, address, isDrained }];
  });
  const weights = readWeights(found.map(({ fields, isDrained }) => (isDrained ? null : fields)));
  const members = found.map(({ server, address }, at) => ({
    address,
    port: Number(rows.realPort.get(`${server}/1`)?.RealPort ?? 0),
    weight: weights[at] ?? 0,
  }));
  const sessions = members.map(
    (member, at) => [member, serverToSessions.get(found[at]?.server ?? '') ?? 0] as const,
  );
  return { listener: { protocol, port, members }, sessions };
}

/** Weights in names count only where the unit has the weights that follow from them: else another user changed these. */
function readWeights(rows: readonly (Fields | null)[]): readonly number[] {
  const noted = rows.map((fields) => {
    if (fields === null) return { weight: 0 };
    const [, text] = /^weight (\d+)$/.exec(String(fields.Name)) ?? [];
    return { weight: Number(text ?? fields.Weight ?? 1) };
  });
  const scaled = fitWeights(noted, maxWeight);
  return rows.map((fields, at) => {
    const weight = Number(fields?.Weight ?? 1);
    return fields === null ? 0 : scaled[at]?.weight === weight ? (noted[at]?.weight ?? weight) : weight;
  });
}

function readMethod(group: Fields | undefined): DeviceMethod {
  const found = Object.entries(methodToMetric).find(([, metric]) => metric === group?.Metric);
  return (found?.[0] as DeviceMethod | undefined) ?? 'rr';
}

function readAffinity(rows: Rows, [name, fields]: readonly [string, Fields] = ['', {}]): number | null {
  const service = rows.virtualService.get(`${name}/1`) ?? {};
  const { PersistentTimeOut = 0 } = rows.serviceGroup.get(`${name}/1`) ?? {};
  if (service.PBind !== bindings.clientAddress) return null;
  const [, noted] = /^affinity (\d+) s$/.exec(String(fields.VirtServerVname)) ?? [];
  const minutes = Number(PersistentTimeOut);
  return noted !== undefined && toMinutes(Number(noted)) === minutes ? Number(noted) : minutes * 60;
}

/** Source: the MIB, slbNewCfgEnhGroupMetric; zcloud's elb-controller takes the same for its methods rr, lc and hash. */
const methodToMetric: Readonly<Record<DeviceMethod, number>> = { rr: 1, lc: 2, hash: 4 };

/** Source: the MIB, slbNewCfgEnhRealServerWeight: from 1 to this. */
const maxWeight = 48;

/** Source: the MIB, slbNewCfgEnhRealServerState and slbNewCfgEnhVirtServerState. */
const enabled = 2;

/** Source: the MIB, slbNewCfgEnhVirtServiceUDPBalance. */
const protocolToBalance = { udp: 2, tcp: 3 };

/** Source: the MIB, slbNewCfgEnhVirtServicePBind: a client stays by its address, or not at all. */
const bindings = { clientAddress: 2, none: 3 };

/** Source: the MIB, slbNewCfgEnhVirtServicesTable's DBind: connections are balanced when they begin, with nothing read of them. */
const noDelayedBinding = 2;

/** Source: the MIB, slbNewCfgEnhVirtServiceRealPort: each real server has a port of its own. */
const portsOfMembers = 0;

/** Source: the MIB: a port of a service (1 is for all of IP), a port of a real server, and the minutes of persistence. */
const limits = { port: { min: 9, max: 65_534 }, memberPort: { min: 5, max: 65_534 }, minutes: 32_768 };

/** Why no Alteon can be this balancer; null where one can. */
export function findRefusal({ listeners, affinityS }: Balancer): string | null {
  const { port: own, memberPort: theirs } = limits;
  const cannot = 'an Alteon cannot have it:';
  for (const { port, members } of listeners) {
    if (port < own.min || port > own.max)
      return `${cannot} port ${port} is outside of ${own.min} to ${own.max}`;
    const bad = members.find((one) => one.port < theirs.min || one.port > theirs.max);
    if (bad !== undefined)
      return `${cannot} port ${bad.port} of a member is outside of ${theirs.min} to ${theirs.max}`;
  }
  if (affinityS === null || toMinutes(affinityS) <= limits.minutes) return null;
  return `${cannot} an affinity of ${affinityS} s is longer than ${limits.minutes} minutes`;
}

/** All rows that a balancer is made of. A group's name has the cluster's identity: the names of objects have no room for it. */
export function toRows(balancer: Balancer, settings: Pick<AlteonSettings, 'options' | 'identity'>): Rows {
  const rows = makeRows();
  for (const listener of balancer.listeners) {
    const group = nameGroup(balancer.id, listener);
    rows.group.set(group, toGroup(balancer, listener, settings.identity));
    addMembers(rows, group, listener);
    for (const address of balancer.addresses) {
      // `MARK_tcp_443_10.0.0.5`: a listener at one of its addresses.
      const server = `${group}_${formatToken(address)}`;
      rows.virtualServer.set(server, toVirtualServer(address, balancer.affinityS));
      rows.virtualService.set(`${server}/1`, toService(listener, balancer.affinityS));
      rows.serviceGroup.set(`${server}/1`, toServiceGroup(group, balancer.affinityS, settings.options));
    }
  }
  return rows;
}

/** A unit counts persistence by minutes; a client stays at least as long as it was promised. */
function toMinutes(affinityS: number): number {
  return Math.max(1, Math.ceil(affinityS / 60));
}

function toGroup({ method }: Balancer, { protocol, members }: Listener, identity?: string): Fields {
  return {
    Metric: methodToMetric[method],
    // The units' own checks, a connection or an answer: zcloud's elb-controller takes them too.
    HealthID: protocol,
    IpVer: toGroupVersion(members),
    ...(identity === undefined ? {} : { Name: `cluster ${identity}` }),
  };
}

function addMembers(rows: ReturnType<typeof makeRows>, group: string, { members }: Listener): void {
  const fitting = fitWeights(members, maxWeight);
  members.forEach((member, at) => {
    // `MARK_tcp_443_10.1.2.3_8080`. Another listener's member at the same place is another object: it has its own weight.
    const server = `${group}_${formatToken(member.address)}_${member.port}`;
    rows.realServer.set(server, toRealServer(member, fitting[at]?.weight ?? member.weight));
    rows.realPort.set(`${server}/1`, { RealPort: member.port });
    const State = member.weight === 0 ? memberStates.drained : memberStates.enabled;
    rows.groupMember.set(`${group}/${server}`, { State });
  });
}

/** What drains keeps the weight that it had. What a unit has no field for is in a row's name, so that it can be read back. */
function toRealServer({ address: { family, text }, weight }: Member, scaled: number): Fields {
  const noted = scaled === weight ? '' : `weight ${weight}`;
  return {
    ...(family === 'ipv4' ? { IpVer: 1, IpAddr: text } : { IpVer: 2, Ipv6Addr: text }),
    State: enabled,
    ...(weight === 0 ? {} : { Weight: scaled, Name: noted }),
  };
}

/** Source: the MIB, slbNewCfgEnhGroupIpVer: IPv4, IPv6, both. */
function toGroupVersion(members: readonly Member[]): number {
  const families = new Set(members.map(({ address }) => address.family));
  if (families.size === 2) return 3;
  return families.has('ipv6') ? 2 : 1;
}

function toVirtualServer(address: Address, affinityS: number | null): Fields {
  const isWhole = affinityS === null || toMinutes(affinityS) * 60 === affinityS;
  return {
    ...(address.family === 'ipv4'
      ? { VirtServerIpVer: 1, VirtServerIpAddress: address.text }
      : { VirtServerIpVer: 2, VirtServerIpv6Addr: address.text }),
    VirtServerState: enabled,
    VirtServerVname: isWhole ? '' : `affinity ${affinityS} s`,
  };
}

function toService({ protocol, port }: Listener, affinityS: number | null): Fields {
  return {
    ...{ VirtPort: port, RealPort: portsOfMembers, UDPBalance: protocolToBalance[protocol] },
    ...{ DBind: noDelayedBinding, PBind: affinityS === null ? bindings.none : bindings.clientAddress },
  };
}

function toServiceGroup(group: string, affinityS: number | null, { proxyIpMode }: AlteonOptions): Fields {
  return {
    RealGroup: group,
    ...(affinityS === null ? {} : { PersistentTimeOut: toMinutes(affinityS) }),
    ...(proxyIpMode === null ? {} : { ProxyIpMode: proxyIpMode }),
  };
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
    ...[...wanted[id]].flatMap(([key, fields]) => {
      const before = current[id].get(key);
      return before === undefined ? create({ id, key }, fields) : change({ id, key }, before, fields);
    }),
    ...[...current[id]]
      .filter(([key]) => !wanted[id].has(key))
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
    const [group = '', server = ''] = key.split('/');
    const path = toPath({ id: 'group', key: group });
    const added = { ...step, method: 'PUT' as const, path, body: { AddServer: server } };
    return [added, ...change(row, { State: memberStates.enabled }, fields)];
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
  if (whole !== undefined && current[whole].has(first) && !wanted[whole].has(first)) return [];
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
    fields &&
    Object.entries(fields)
      .map(([column, value]) => `${column}=${value}`)
      .join(' ');
  return { object: `${tables[id].title} ${key}`, before: format(before), after: format(after) };
}

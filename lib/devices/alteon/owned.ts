import { type Address, parseAddress } from '../../address/address.ts';
import {
  type Balancer,
  type BalancerId,
  type DeviceMethod,
  formatMember,
  type Listener,
  type Member,
  type Owned,
} from '../driver.ts';
import { formatMark, parseMark } from '../mark.ts';
import { type ParsedName, parseName } from './names.ts';
import { memberStates } from './steps.ts';
import { type Fields, ofTable, type Rows, tableIds } from './tables.ts';
import { bindings, methodToMetric, scaleWeights, toMinutes } from './wanted-rows.ts';

/** What a unit has of a cluster, by the names of objects alone. */
export interface Holdings {
  readonly cluster: string;
  /** In force. */
  readonly rows: Rows;
  /** By `GROUP/SERVER`: the state in which a member works, whatever is configured. */
  readonly memberToState: ReadonlyMap<string, number>;
  /** By real server. */
  readonly serverToSessions: ReadonlyMap<string, number>;
}

/**
 * The balancers of a cluster. What is left of one is listed too, however little it is: then it has no addresses, or no listeners. A method that
 * is none of ours is read as `rr`.
 */
export function readOwned(holdings: Holdings): readonly Owned[] {
  const markToId = new Map<string, BalancerId>();
  for (const id of tableIds) {
    for (const key of ofTable(holdings.rows, id).keys()) {
      const parsed = parseMark(key.split('/')[0] ?? '', holdings.cluster);
      if (parsed !== null) markToId.set(formatMark(parsed.id), parsed.id);
    }
  }
  return [...markToId]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([mark, id]) => readBalancer(holdings, mark, id));
}

interface OwnedMember extends Member {
  readonly sessions: number;
}

interface OwnedListener extends Listener {
  readonly members: readonly OwnedMember[];
}

function readBalancer(holdings: Holdings, mark: string, id: BalancerId): Owned {
  const { rows, cluster } = holdings;
  const isOurs = (name: string) => name.startsWith(`${mark}_`);
  const groups = [...ofTable(rows, 'group')].filter(([name]) => isOurs(name));
  const listeners = groups.flatMap(([name]): readonly OwnedListener[] => {
    const parsed = parseName(name, cluster);
    return parsed === null ? [] : [readListener(holdings, name, parsed)];
  });
  const servers = [...ofTable(rows, 'virtualServer')].filter(([name]) => isOurs(name));
  const addresses = new Map(
    servers.flatMap(([, fields]) => {
      const address = readAddress(fields.VirtServerIpAddress ?? fields.VirtServerIpv6Addr);
      return address === null ? [] : [[address.text, address] as const];
    }),
  );
  const balancer: Balancer = {
    id,
    addresses: [...addresses.values()],
    listeners: listeners.map(({ protocol, port, members }) => ({
      ...{ protocol, port },
      members: members.map(({ address, port: memberPort, weight }) => ({
        address,
        port: memberPort,
        weight,
      })),
    })),
    method: readMethod(groups[0]?.[1]),
    affinityS: readAffinity(rows, servers[0]),
  };
  return { balancer, memberToSessions: sumSessions(listeners) };
}

function readListener(holdings: Holdings, group: string, { protocol, port }: ParsedName): OwnedListener {
  const { rows, memberToState, serverToSessions } = holdings;
  const found = [...ofTable(rows, 'groupMember')].flatMap(([key, { State }]) => {
    const [of, server = ''] = key.split('/');
    const fields = ofTable(rows, 'realServer').get(server);
    const address = readAddress(fields?.IpAddr ?? fields?.Ipv6Addr);
    if (of !== group || fields === undefined || address === null) return [];
    const isDrained = (memberToState.get(key) ?? State) !== memberStates.enabled;
    return [{ server, fields, address, isDrained }];
  });
  const weights = readWeights(found.map(({ fields, isDrained }) => (isDrained ? null : fields)));
  const members = found.map(({ server, address }, at) => ({
    address,
    port: Number(ofTable(rows, 'realPort').get(`${server}/1`)?.RealPort ?? 0),
    weight: weights[at] ?? 0,
    sessions: serverToSessions.get(server) ?? 0,
  }));
  return { protocol, port, members };
}

/** What stands in names counts only where the unit has the weights that come of it: else somebody changed these. */
function readWeights(rows: readonly (Fields | null)[]): readonly number[] {
  const noted = rows.map((fields) => {
    if (fields === null) return 0;
    const [, text] = /^weight (\d+)$/.exec(String(fields.Name)) ?? [];
    return Number(text ?? fields.Weight ?? 1);
  });
  const scaled = scaleWeights(noted);
  return rows.map((fields, at) => {
    const weight = Number(fields?.Weight ?? 1);
    return fields === null ? 0 : scaled[at] === weight ? (noted[at] ?? weight) : weight;
  });
}

function readMethod(group: Fields | undefined): DeviceMethod {
  const found = Object.entries(methodToMetric).find(([, metric]) => metric === group?.Metric);
  return (found?.[0] as DeviceMethod | undefined) ?? 'rr';
}

function readAffinity(rows: Rows, server: readonly [string, Fields] | undefined): number | null {
  if (server === undefined) return null;
  const [name, fields] = server;
  const service = ofTable(rows, 'virtualService').get(`${name}/1`) ?? {};
  const { PersistentTimeOut = 0 } = ofTable(rows, 'serviceGroup').get(`${name}/1`) ?? {};
  if (service.PBind !== bindings.clientAddress) return null;
  const [, noted] = /^affinity (\d+) s$/.exec(String(fields.VirtServerVname)) ?? [];
  const minutes = Number(PersistentTimeOut);
  return noted !== undefined && toMinutes(Number(noted)) === minutes ? Number(noted) : minutes * 60;
}

function sumSessions(listeners: readonly OwnedListener[]): ReadonlyMap<string, number> {
  const memberToSessions = new Map<string, number>();
  for (const member of listeners.flatMap(({ members }) => members)) {
    const text = formatMember(member);
    memberToSessions.set(text, (memberToSessions.get(text) ?? 0) + member.sessions);
  }
  return memberToSessions;
}

function readAddress(text: string | number | undefined): Address | null {
  return text === undefined ? null : parseAddress(String(text));
}

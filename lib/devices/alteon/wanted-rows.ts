import { type Address } from '../../address/address.ts';
import { type Balancer, type DeviceMethod, type Listener, type Member } from '../driver.ts';
import { nameGroup, nameRealServer, nameVirtualServer } from './names.ts';
import { type AlteonOptions } from './settings.ts';
import { memberStates } from './steps.ts';
import { type Fields, type GatheredRows, makeRows, type Rows, type TableId } from './tables.ts';

/** Source: the MIB, slbNewCfgEnhGroupMetric; zcloud's elb-controller takes the same for its methods rr, lc and hash. */
export const methodToMetric: Readonly<Record<DeviceMethod, number>> = { rr: 1, lc: 2, hash: 4 };

/** Source: the MIB, slbNewCfgEnhRealServerWeight: from 1 to this. */
const maxWeight = 48;

/** Source: the MIB, slbNewCfgEnhRealServerState and slbNewCfgEnhVirtServerState. */
const enabled = 2;

/** Source: the MIB, slbNewCfgEnhVirtServiceUDPBalance. */
const protocolToBalance = { udp: 2, tcp: 3 };

/** Source: the MIB, slbNewCfgEnhVirtServicePBind: a client stays by its address, or not at all. */
export const bindings = { clientAddress: 2, none: 3 };

/** Source: the MIB, slbNewCfgEnhVirtServicesTable's DBind: connections are balanced when they begin, with nothing read of them. */
const noDelayedBinding = 2;

/** Source: the MIB, slbNewCfgEnhVirtServiceRealPort: each real server has a port of its own. */
const portsOfMembers = 0;

/** Source: the MIB: a port of a service (1 is for all of IP), a port of a real server, and the minutes of persistence. */
const limits = { port: { min: 9, max: 65_534 }, memberPort: { min: 5, max: 65_534 }, minutes: 32_768 };

/** Why no Alteon can be this balancer, as a sentence's end; null where one can. */
export function findRefusal({ listeners, affinityS }: Balancer): string | null {
  const isWithin = (port: number, { min, max }: { readonly min: number; readonly max: number }) =>
    port >= min && port <= max;
  for (const { port, members } of listeners) {
    if (!isWithin(port, limits.port))
      return `port ${port} is outside of ${limits.port.min} to ${limits.port.max}`;
    const bad = members.find((member) => !isWithin(member.port, limits.memberPort));
    if (bad !== undefined) {
      return `port ${bad.port} of a member is outside of ${limits.memberPort.min} to ${limits.memberPort.max}`;
    }
  }
  if (affinityS === null || toMinutes(affinityS) <= limits.minutes) return null;
  return `an affinity of ${affinityS} s is longer than ${limits.minutes} minutes`;
}

/** All rows that a balancer is made of. */
export function toRows(balancer: Balancer, options: AlteonOptions): Rows {
  const rows = makeRows();
  for (const listener of balancer.listeners) {
    const group = nameGroup(balancer.id, listener);
    addGroup(rows, group, balancer, listener);
    for (const address of balancer.addresses) {
      const server = nameVirtualServer(group, address);
      add(rows, 'virtualServer', server, toVirtualServer(address, balancer.affinityS));
      add(rows, 'virtualService', `${server}/1`, toService(listener, balancer.affinityS));
      add(rows, 'serviceGroup', `${server}/1`, toServiceGroup(group, balancer.affinityS, options));
    }
  }
  return rows;
}

/**
 * The weights that a unit can have. Where one is more than a unit knows, all become smaller by the same factor, and none becomes 0 that was not.
 */
export function scaleWeights(weights: readonly number[]): readonly number[] {
  const most = Math.max(0, ...weights);
  if (most <= maxWeight) return weights;
  return weights.map((weight) => (weight === 0 ? 0 : Math.max(1, Math.round((weight * maxWeight) / most))));
}

/** A unit counts persistence by minutes; a client stays at least as long as it was promised. */
export function toMinutes(affinityS: number): number {
  return Math.max(1, Math.ceil(affinityS / 60));
}

/** What a unit has no room for stands in a row's name, so that it can be read back. */
export const notes = {
  weight: (weight: number): string => `weight ${weight}`,
  affinity: (affinityS: number): string => `affinity ${affinityS} s`,
};

function addGroup(rows: GatheredRows, group: string, { method }: Balancer, listener: Listener): void {
  const { protocol, members } = listener;
  add(rows, 'group', group, {
    Metric: methodToMetric[method],
    // The units' own checks, a connection or an answer: zcloud's elb-controller takes them too.
    HealthID: protocol,
    IpVer: toGroupVersion(members),
  });
  const scaled = scaleWeights(members.map(({ weight }) => weight));
  members.forEach((member, at) => {
    const server = nameRealServer(group, member);
    add(rows, 'realServer', server, toRealServer(member, scaled[at] ?? member.weight));
    add(rows, 'realPort', `${server}/1`, { RealPort: member.port });
    const State = member.weight === 0 ? memberStates.drained : memberStates.enabled;
    add(rows, 'groupMember', `${group}/${server}`, { State });
  });
}

/** What drains keeps the weight that it had. */
function toRealServer({ address, weight }: Member, scaled: number): Fields {
  const noted = scaled === weight ? '' : notes.weight(weight);
  return {
    ...(address.family === 'ipv4'
      ? { IpVer: 1, IpAddr: address.text }
      : { IpVer: 2, Ipv6Addr: address.text }),
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
    VirtServerVname: isWhole ? '' : notes.affinity(affinityS),
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

function add(rows: GatheredRows, id: TableId, key: string, fields: Fields): void {
  rows.get(id)?.set(key, fields);
}

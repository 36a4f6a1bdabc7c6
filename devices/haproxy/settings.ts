import {
  type DeviceMethod,
  type DeviceSettings,
  checkSettings,
  type Refuse,
  refuseSettings,
  refuseSameUnits,
  refuseUnknown,
} from '../driver.ts';
import { createHash } from 'node:crypto';

/** Settings of HAProxy units, read and found to be meant. */
export interface HaproxySettings extends Pick<DeviceSettings, 'cluster' | 'identity' | 'ca'> {
  readonly units: readonly HaproxyAddress[];
  readonly options: HaproxyOptions;
  /** The first line that each call sends. */
  readonly login: string;
}

/** One unit. */
export interface HaproxyAddress {
  /** As it was given. */
  readonly unit: string;
  /** A name or an address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** What `vipnat device configuration` makes units of. The driver itself asks the units. */
interface HaproxyOptions {
  /** At which balancers can listen, in order. */
  readonly ports: readonly PortRange[];
  /** How many listeners there can be of each method. */
  readonly slots: Readonly<Record<DeviceMethod, number>>;
  /** How many members a listener can have. */
  readonly members: number;
  /** Which interface of a pair's hosts gets the addresses. */
  readonly interface: string;
  /** The number of the pair's VRRP router; null for that of the first unit's address. */
  readonly vrid: number | null;
  /** Addresses and CIDRs that may connect to the runtime interface. */
  readonly management: readonly string[];
  /** Members get a header of the PROXY protocol, version 2, in front of each connection. */
  readonly sendsProxy: boolean;
}

/** Both are included. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** In this order everywhere. */
export const methods: readonly DeviceMethod[] = ['rr', 'lc', 'hash'];

/** How long clients can stay with members: of these, the first that is not shorter. HAProxy's tables have one time each. The last is Kubernetes'. */
export const affinityTimesS: readonly number[] = [60, 600, 3600, 10_800, 86_400];

/** More would take a gigabyte of a unit's memory: one server has 7 KiB. */
const maxServers = 100_000;

/** One that nothing well known has. */
const usualPort = 9443;

/** @throws VipnatError DEVICE_SETTINGS_INVALID where settings cannot be meant. */
export function readSettings(settings: DeviceSettings): HaproxySettings {
  const { cluster, identity, ca } = settings;
  const { username, password } = checkSettings(settings);
  // What a unit's clients say first: HAProxy's own command that switches to interactive answers, whose further words HAProxy does not read.
  // The configuration has a hash of it. So its length is always the same, and neither has the password.
  const login = `prompt ${createHash('sha256').update(`${username}\0${password}`).digest('hex')}`;
  const refuse = refuseSettings(settings);
  const units = settings.units.map((unit) => readUnit(refuse, unit));
  const places = units.map(({ host, port }) => `${host} ${port}`);
  refuseSameUnits(refuse, places);
  return { cluster, identity, units, options: readOptions(refuse, settings), login, ca };
}

function readUnit(refuse: Refuse, unit: string): HaproxyAddress {
  const url = /^[^/\s@?#]+$/.test(unit) ? URL.parse(`tcp://${unit}`) : null;
  if (url === null || url.hostname === '')
    throw refuse(`unit ${JSON.stringify(unit)} is not HOST:PORT. Example: 10.0.0.11:${usualPort}`);
  const host = url.hostname.replaceAll(/^\[|\]$/g, '');
  return { unit, host, port: url.port === '' ? usualPort : Number(url.port) };
}

/** As docs/device-haproxy.md says. */
const usualOptions = {
  ports: '80,443',
  slots: '',
  members: '64',
  interface: 'eth0',
  vrid: '',
  management: '0.0.0.0/0,::/0',
  proxyProtocol: 'off',
};

function readOptions(refuse: Refuse, settings: DeviceSettings): HaproxyOptions {
  const all = { ...usualOptions, ...settings.options };
  const { ports, slots, members, interface: link, vrid, management, proxyProtocol, ...others } = all;
  refuseUnknown(refuse, others, Object.keys(usualOptions).join(', '));
  // More can be in a name, and would be something else in keepalived's file.
  if (!/^[\w.:-]{1,15}$/.test(link))
    throw refuse(`option interface is the name of an interface, not ${JSON.stringify(link)}`);
  if (!['off', 'v2'].includes(proxyProtocol))
    throw refuse(`option proxyProtocol is off or v2, not ${JSON.stringify(proxyProtocol)}`);
  const options = {
    ports: readPorts(refuse, ports),
    slots: readSlots(refuse, slots),
    members: readNumber(refuse, 'members', members, 4095),
    interface: link,
    vrid: 'vrid' in settings.options ? readNumber(refuse, 'vrid', vrid, 255) : null,
    management: management.split(',').map((text) => text.trim()),
    sendsProxy: proxyProtocol === 'v2',
  };
  const servers = methods.reduce((sum, method) => sum + options.slots[method] * options.members, 0);
  if (servers <= maxServers) return options;
  throw refuse(`options slots and members make ${servers} servers. At most ${maxServers} are possible`);
}

function readPorts(refuse: Refuse, text: string): readonly PortRange[] {
  const ranges = text.split(',').map((part) => {
    const [, first = '', last = first] = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(part) ?? [];
    return { first: Number(first), last: Number(last) };
  });
  const sorted = ranges.toSorted((one, other) => one.first - other.first);
  const isRight = ({ first, last }: PortRange, at: number) =>
    first > (sorted[at - 1]?.last ?? 0) && first <= last && last <= 65_535;
  if (sorted.every(isRight)) return ranges;
  throw refuse(
    `option ports is a list of different ports, not ${JSON.stringify(text)}. Example: 80,443,8000-8099`,
  );
}

function readSlots(refuse: Refuse, text: string): HaproxyOptions['slots'] {
  const slots = { rr: 64, lc: 16, hash: 16 };
  for (const part of text.split(',').filter((entry) => entry.trim() !== '')) {
    const [, name, count = ''] = /^\s*(rr|lc|hash)=(\d+)\s*$/.exec(part) ?? [];
    const method = methods.find((one) => one === name);
    if (method === undefined)
      throw refuse(
        `option slots is a list of METHOD=NUMBER, not ${JSON.stringify(text)}. Example: rr=64,lc=16,hash=16`,
      );
    slots[method] = readNumber(refuse, `slots (${method})`, count, 4095);
  }
  return slots;
}

function readNumber(refuse: Refuse, name: string, text: string, most: number): number {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (number >= 1 && number <= most) return number;
  throw refuse(`option ${name} is a number from 1 to ${most}, not ${JSON.stringify(text)}`);
}

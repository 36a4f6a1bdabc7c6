import { type Config, duration, address, wholeNumber } from '../config/options.ts';
import type { InterfaceAddress } from '../lib/kernel/host.ts';
import { safeInterface, toRouterId, isSafePath, computeVrid, listDevices } from '../lib/keepalived/read.ts';
import { VipnatError } from '../lib/errors.ts';
import {
  locateServingFile,
  locateNotices,
  toPriority,
  renderConfiguration,
  removeRoutes,
  nameInstance,
  type VrrpInstance,
} from '../lib/keepalived/write.ts';
import { type Address, isInSubnet, toAddressBytes } from '../lib/net.ts';
import * as z from 'zod/mini';
import { text, bySchema, list, eachBySchema, type OptionsOf, refuseValue, formatFlags } from './command.ts';

interface VrrpNeeds {
  readonly config: Pick<Config, 'vips' | 'endpoints' | 'runDir'>;
  readonly options: VrrpOptions;
  /** The host's name, whatever is in it. */
  readonly hostname: string;
  /** Of this host, link-local and loopback ones left out. */
  readonly interfaces: readonly InterfaceAddress[];
}

/**
 * The configuration of this node's keepalived. Pure.
 * @throws VipnatError CONFIG_INVALID with a line for each setting that cannot be determined or contradicts another.
 */
export function planVrrp({ interfaces, ...given }: VrrpNeeds): Vrrp {
  // A name that keepalived's parser could misread is as good as no interface.
  const needs = { ...given, interfaces: interfaces.filter(({ device }) => safeInterface.test(device)) };
  const { options } = needs;
  // Ports share an address, and the address is what keepalived holds.
  const texts = new Map(needs.config.vips.map(({ family, address }) => [address, family]));
  const vips = [...texts].map(([text, family]) => ({ family, text }));
  const problems = [...findContradictions(vips, needs), ...checkFolder(needs.config, '/run/vipnat')];
  if (problems.length > 0) throw new VipnatError('CONFIG_INVALID', problems.join('\n'));
  const vrids = assignVrids(vips, options.vrid);
  const placed = vips.map((vip, index) => placeInstance({ vip, vrid: vrids[index] ?? 0 }, vips, needs));
  const failures = placed.filter((result) => typeof result === 'string');
  if (failures.length > 0) throw new VipnatError('CONFIG_INVALID', [...new Set(failures)].join('\n'));
  const instances = placed.filter((result) => typeof result !== 'string');
  return {
    node: toRouterId(needs.hostname),
    instances,
    priority: options.priority ?? rank(instances),
    advertMs: options.advert,
    trackFile: locateServingFile(needs.config.runDir),
    notices: locateNotices(needs.config.runDir),
  };
}

function findContradictions(vips: readonly Address[], { options, interfaces }: VrrpNeeds): string[] {
  const wrongPeers = options.peers.flatMap(({ family, text }) => {
    if (vips.some((vip) => vip.text === text))
      return [`--peers ${text} is a virtual IP. Give the masters' own addresses`];
    if (vips.some((vip) => vip.family === family)) return [];
    const name = family === 'ipv4' ? 'IPv4' : 'IPv6';
    return [`--peers ${text} is ${name}, but no virtual IP is. Add an ${name} --vip`];
  });
  const names = [...new Set(interfaces.map(({ device }) => device))];
  if (options.interface === null || names.includes(options.interface)) return wrongPeers;
  const known =
    names.length === 0 ? 'no interface has one' : `these interfaces have one: ${names.join(', ')}`;
  return [...wrongPeers, `--interface ${options.interface} has no address on this host: ${known}`];
}

/** What cannot be written into keepalived.conf. */
export function checkFolder({ runDir }: Pick<Config, 'runDir'>, example: string): string[] {
  if (isSafePath(runDir)) return [];
  return [refuseValue('--run-dir', runDir, 'cannot be written into keepalived.conf', example)];
}

/** Answers a problem in words where the instance cannot be determined. */
function placeInstance(
  { vip, vrid }: Pick<VipInstance, 'vip' | 'vrid'>,
  vips: readonly Address[],
  { config, options, interfaces }: VrrpNeeds,
): VipInstance | string {
  const isVip = ({ address }: InterfaceAddress) => vips.some(({ text }) => text === address);
  const addresses = interfaces.filter((local) => local.family === vip.family && !isVip(local));
  const masters = listMasters(vip, config, options);
  const choice =
    options.interface === null ? chooseInterface(vip, { addresses, masters }) : { device: options.interface };
  if ('problem' in choice) return choice.problem;
  const { device } = choice;
  const here = new Set(addresses.map(({ address }) => address));
  const peers = masters.filter((master) => !here.has(master));
  if (peers.length === 0) return { vip, device, vrid, unicast: null };
  const own = findOwnAddress(vip, device, { addresses, masters });
  return 'problem' in own ? own.problem : { vip, device, vrid, unicast: { source: own.address, peers } };
}

/** Of the VIP's family, in the order in which they sort as text, each once. */
function listMasters(vip: Address, { endpoints }: Pick<Config, 'endpoints'>, { peers }: VrrpOptions) {
  const known = peers.length > 0 ? peers : endpoints.map(({ family, address: text }) => ({ family, text }));
  return [...new Set(known.filter(({ family }) => family === vip.family).map(({ text }) => text))].sort();
}

/**
 * A node's priority, 1 to 250: by its place among the masters, in the order of their addresses. Equal on all nodes that know the same
 * masters. One for all instances, as a group with different ones is elected again and again. IPv4 counts first, on every node.
 */
function rank(instances: readonly VipInstance[]): number {
  const known = instances.filter(({ unicast }) => unicast !== null);
  const first = known.find(({ vip }) => vip.family === 'ipv4') ?? known[0];
  if (first?.unicast === null || first === undefined) return commonPriority;
  const { source, peers } = first.unicast;
  return toPriority([source, ...peers].sort(compareAddresses).indexOf(source));
}

/** What an interface and this node's own address are found by. */
interface Surroundings {
  /** The addresses of this host of the VIP's family, virtual ones left out. */
  readonly addresses: readonly InterfaceAddress[];
  /** The other masters and this one, as far as they are known. */
  readonly masters: readonly string[];
}

/**
 * The interface that carries a virtual IP: that with the VIP's subnet, else the one that leads to the masters. When
 * that is none or several, a problem in words, with the fix. Pure.
 */
function chooseInterface(vip: Address, { addresses, masters }: Surroundings) {
  const around = listDevices(addresses.filter((local) => isInSubnet(vip.text, local)));
  const towards = listDevices(addresses.filter((one) => masters.some((master) => isInSubnet(master, one))));
  const candidates = around.length > 0 ? around : towards;
  const [device = 'eth0', ...others] = candidates;
  if (candidates.length === 1) return { device };
  if (others.length > 0) {
    const what =
      around.length > 0 ? 'is in the subnets' : 'is in no subnet of this host, and the masters are in those';
    return { problem: `${vip.text} ${what} of ${candidates.join(', ')}. Choose one: --interface ${device}` };
  }
  const all = listDevices(addresses);
  const known = all.length === 0 ? 'no interface here has an address' : `it has ${all.join(', ')}`;
  return {
    problem: `${vip.text} is in no subnet of this host (${known}). Name its interface: --interface ${all[0] ?? 'eth0'}`,
  };
}

/** keepalived takes 255 for the address's owner, which tracking cannot lower. */
const largestPriority = 254;

/** RFC 3768's own default. */
const defaultAdvertMs = 1000;

const interfaceName = z.string().check(z.regex(safeInterface, { error: 'is not a name of an interface' }));

// VRRPv3 has hundredths of a second (RFC 9568, section 5.2.7).
const advert = duration(100, 10_000).check(z.multipleOf(10, { error: 'is not a multiple of 10ms' }));

const outputFile = z.string().check(z.minLength(1, { error: 'names no file' }));

/** What says how keepalived.conf is filled in, which its manifest takes too. */
export const vrrpFlags = {
  /** The interface of all virtual IPs; null finds one for each. Its name is safe to print anywhere. */
  interface: text(
    'NAME',
    'the interface of the virtual IPs, if vipnat cannot detect it',
    bySchema(z.nullable(interfaceName), null, 'eth0'),
  ),
  /** The masters; empty for those of `--endpoints`. This node may be one of them, and any may be named twice. */
  peers: list(
    'ADDR,…',
    "the masters' addresses, for unicast; this node may be one (default: --endpoints, or multicast)",
    eachBySchema(address, '10.0.0.11,10.0.0.12,10.0.0.13'),
  ),
  /** virtual_router_ids, 1 to 255: none, one for all addresses, or one for each in the order of `--vip`. */
  vrid: list(
    'N,…',
    'virtual_router_id, one for each VIP (default: the last byte plus 1)',
    eachBySchema(wholeNumber(1, 255), '51'),
  ),
  /** 1 to 254; null derives it from the masters' addresses. */
  priority: text(
    'N',
    "from 1 to 254 (default: by this node's place among the masters)",
    bySchema(z.nullable(wholeNumber(1, largestPriority)), null, '110'),
  ),
  /** From one advert to the next, in milliseconds: 100 to 10,000, in hundredths of a second. */
  advert: text(
    'DURATION',
    'the time between two adverts, such as 300ms (default: 1s)',
    bySchema(advert, defaultAdvertMs, '300ms'),
  ),
};

/** The flags of `vipnat keepalived`. */
export const keepalivedFlags = {
  ...vrrpFlags,
  /** The file to write to; null for standard output. */
  output: text(
    'FILE',
    'a file to write to (default: standard output)',
    bySchema(z.nullable(outputFile), null, '/etc/keepalived/keepalived.conf'),
  ),
};

/** What they are read as. */
export type KeepalivedOptions = OptionsOf<typeof keepalivedFlags>;

type VrrpOptions = OptionsOf<typeof vrrpFlags>;

/** The flags that stand for checked switches, `--peers=10.0.0.11,10.0.0.12`; one with its default gets none. */
export function toKeepalivedArguments(options: VrrpOptions & Partial<KeepalivedOptions>): string[] {
  const { interface: device, peers, vrid, priority, advert: advertMs, output = null } = options;
  return formatFlags({
    interface: device,
    peers: peers.length > 0 && peers.map(({ text }) => text).join(),
    vrid: vrid.length > 0 && vrid.join(),
    priority,
    advert: advertMs !== defaultAdvertMs && `${advertMs}ms`,
    output,
  });
}

/**
 * The address from which this node sends adverts, by which its peers know it: that which is among the masters, else
 * the one on the interface, the VIP's subnet first. When that is none or several, a problem in words. Pure.
 */
function findOwnAddress(vip: Address, device: string, { addresses, masters }: Surroundings) {
  const onDevice = addresses.filter((local) => local.device === device);
  const choices = [
    addresses.filter(({ address }) => masters.includes(address)),
    onDevice.filter(({ address }) => masters.includes(address)),
    onDevice.filter((local) => isInSubnet(vip.text, local)),
    onDevice,
  ];
  const [only] = choices.find((choice) => choice.length === 1) ?? [];
  if (only !== undefined) return { address: only.address };
  const family = vip.family === 'ipv4' ? 'IPv4' : 'IPv6';
  const several = onDevice.map(({ address }) => address).join(', ');
  const what = onDevice.length === 0 ? `${device} has no ${family} address` : `${device} has ${several}`;
  return {
    problem: `vipnat cannot tell by which address the peers know this node: ${what}. Add the address to --peers`,
  };
}

/** Where nobody else is known, all nodes have the same: VRRP then prefers the higher address. */
const commonPriority = 200;

/** By value, so that .9 comes before .10. */
function compareAddresses(left: string, right: string): number {
  return Buffer.compare(toAddressBytes(left), toAddressBytes(right));
}

/** How each keepalived.conf of vipnat's begins: by it a later version knows it. */
export const keepalivedMark = '# keepalived.conf by vipnat keepalived';

/** The text of keepalived.conf. Pure: equal input, equal bytes (I3). Every text in it was checked by who made the input. */
export function renderKeepalived({ node, instances, priority, advertMs, trackFile, notices }: Vrrp): string {
  return renderConfiguration({
    mark: keepalivedMark,
    routerId: node,
    // VRRPv2 has whole seconds only. IPv6 has version 3 in any case.
    version: advertMs % 1000 === 0 ? 2 : 3,
    globals: ['enable_script_security'],
    notices,
    guard: {
      keyword: 'track_file',
      path: trackFile,
      comment:
        "vipnat's agent writes this file. 0: this node can serve the VIP. Without an agent it stays 0.",
    },
    instances: instances.map(({ vip, device, vrid, unicast }) => ({
      name: nameInstance(vip.text),
      device,
      vrid,
      priority,
      advertMs,
      preempts: false,
      ...(vip.family === 'ipv4' && { onAbsence: `/usr/bin/env ${removeRoutes} exact ${vip.text}` }),
      unicast,
      addresses: [`${vip.text}/${vip.family === 'ipv4' ? 32 : 128}`],
      excluded: [],
      tracked: [],
    })),
    // One node holds all addresses, or none.
    group: instances.length > 1 ? 'vipnat' : null,
  });
}

/**
 * The virtual_router_id of each virtual IP, in their order: the ones given (one for all, or one for each), else by the
 * last byte. Pure.
 * @throws VipnatError CONFIG_INVALID when two of one family would have the same, or the number given is another one.
 */
function assignVrids(vips: readonly Address[], given: readonly number[]): number[] {
  if (given.length > 1 && given.length !== vips.length) {
    const addresses =
      vips.length === 1 ? 'there is 1 virtual address' : `there are ${vips.length} virtual addresses`;
    throw new VipnatError(
      'CONFIG_INVALID',
      `--vrid has ${given.length} numbers, and ${addresses} (${vips.map(({ text }) => text).join(', ')}). Give one for each, in this order`,
    );
  }
  const vrids = vips.map((vip, index) => given[index] ?? given[0] ?? computeVrid(vip));
  // IPv4 and IPv6 are distinguished by their packets (RFC 9568, section 5.2.3: the id is unique per family and link).
  const keys = vips.map(({ family }, index) => `${family} ${vrids[index] ?? ''}`);
  const second = vips.find((_, index) => keys.indexOf(keys[index] ?? '') < index);
  if (second === undefined) return vrids;
  const key = keys[vips.indexOf(second)] ?? '';
  const first = vips[keys.indexOf(key)] ?? second;
  throw new VipnatError(
    'CONFIG_INVALID',
    `${first.text} and ${second.text} would both have virtual_router_id ${vrids[vips.indexOf(second)] ?? ''}, and each needs its own. ` +
      `Give them in the order of --vip: --vrid ${spread(vrids).join(',')}`,
  );
}

/** An example without a clash: each that is taken moves on to the next free one. */
function spread(vrids: readonly number[]): number[] {
  const chosen: number[] = [];
  for (let vrid of vrids) {
    while (chosen.includes(vrid)) vrid = (vrid % 255) + 1;
    chosen.push(vrid);
  }
  return chosen;
}

/** One virtual address as keepalived holds it. */
export interface VipInstance extends Pick<VrrpInstance, 'device' | 'vrid' | 'unicast'> {
  readonly vip: Address;
}

/** All settings of a node's keepalived. */
export interface Vrrp {
  /** The node's name, for keepalived's own use; without blanks and quotes. */
  readonly node: string;
  /** At least one; no two of a family have the same virtual_router_id. */
  readonly instances: readonly VipInstance[];
  /** 1 to 254, the same for all instances. */
  readonly priority: number;
  /** In milliseconds. */
  readonly advertMs: number;
  /** The file by which the agent says whether this node can serve; a path without blanks and quotes. */
  readonly trackFile: string;
  /** The named pipe by which it says what state its instances are in; such a path too. */
  readonly notices: string;
}

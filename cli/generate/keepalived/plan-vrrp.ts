import { type Address } from '../../../lib/address/address.ts';
import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { VipnatError } from '../../../lib/text/errors.ts';
import { type InterfaceAddress } from '../../../lib/kernel/host/interfaces.ts';
import { type Config } from '../../../config/config.ts';
import { quoteText } from '../../../config/setting.ts';
import { chooseInterface } from './interface.ts';
import { isSafePath, safeInterface, toRouterId } from '../../../lib/keepalived/words.ts';
import { type VrrpOptions } from './options.ts';
import { findOwnAddress } from './own-address.ts';
import { commonPriority, rankPriority } from './priority.ts';
import { assignVrids } from './vrids.ts';
import { locateNotices } from '../../../lib/keepalived/names.ts';
import { locateServingFile } from '../../../lib/keepalived/serving-file.ts';
import { type Vrrp, type VrrpInstance } from './vrrp.ts';

/** What a node's keepalived is planned from. */
export interface VrrpNeeds {
  readonly config: Pick<Config, 'vips' | 'endpoints' | 'runDir'>;
  readonly options: VrrpOptions;
  /** The host's name, whatever is in it. */
  readonly hostname: string;
  /** Of this host, link-local and loopback ones left out. */
  readonly interfaces: readonly InterfaceAddress[];
}

/**
 * What this node's keepalived is to be told. Pure.
 * @throws VipnatError CONFIG_INVALID with a line for each thing that cannot be told or contradicts another.
 */
export function planVrrp({ interfaces, ...given }: VrrpNeeds): Vrrp {
  // A name that keepalived's parser could misread is as good as no interface.
  const needs = { ...given, interfaces: interfaces.filter(({ device }) => safeInterface.test(device)) };
  const { options } = needs;
  const vips = listVips(needs.config.vips);
  const problems = [...findContradictions(vips, needs), ...findPathProblem(needs.config)];
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

/** Ports share an address, and the address is what keepalived holds. */
function listVips(vips: readonly Endpoint[]): Address[] {
  const texts = new Map(vips.map(({ family, address }) => [address, family]));
  return [...texts].map(([text, family]) => ({ family, text }));
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

function findPathProblem({ runDir }: Pick<Config, 'runDir'>): string[] {
  if (isSafePath(runDir)) return [];
  return [
    `--run-dir ${quoteText(runDir)} cannot be written into keepalived.conf. Example: --run-dir /run/vipnat`,
  ];
}

/** Answers a problem in words where it cannot be told. */
function placeInstance(
  { vip, vrid }: Pick<VrrpInstance, 'vip' | 'vrid'>,
  vips: readonly Address[],
  { config, options, interfaces }: VrrpNeeds,
): VrrpInstance | string {
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
  const own = findOwnAddress(vip, { addresses, masters, device });
  return 'problem' in own ? own.problem : { vip, device, vrid, unicast: { source: own.address, peers } };
}

/** Of the VIP's family, in the order in which they sort as text, each once. */
function listMasters(
  vip: Address,
  { endpoints }: Pick<Config, 'endpoints'>,
  { peers }: VrrpOptions,
): string[] {
  const known = peers.length > 0 ? peers : endpoints.map(({ family, address: text }) => ({ family, text }));
  return [...new Set(known.filter(({ family }) => family === vip.family).map(({ text }) => text))].sort();
}

/** One for all instances, as a group with different ones is elected again and again. IPv4 counts first, on every node. */
function rank(instances: readonly VrrpInstance[]): number {
  const known = instances.filter(({ unicast }) => unicast !== null);
  const first = known.find(({ vip }) => vip.family === 'ipv4') ?? known[0];
  if (first?.unicast === null || first === undefined) return commonPriority;
  return rankPriority(first.unicast.source, first.unicast.peers);
}

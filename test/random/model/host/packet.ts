/**
 * Where the packet that opens a connection goes: what the rules mean, read without any help of the product's own
 * parser. It knows the matches of the small world; one that it does not know is an error of the model's.
 */
import ipaddr from 'ipaddr.js';
import { oncePerKernel, type KernelState } from './kernels.ts';
import { vip, clusterIp, nft } from './small-world.ts';
import { type Endpoint, formatEndpoint } from '../../../../lib/net.ts';
import { listChains } from '../../property/tables.ts';

/** Where clients are: on another host, or on this one. */
export const seats = ['PREROUTING', 'OUTPUT'] as const;

export type Seat = (typeof seats)[number];

/** It is not translated: the host that holds the address answers itself. */
export const untranslated = 'untranslated';

/** A rule drops or rejects it. */
export const dropped = 'dropped';

const client = ipaddr.parse('10.0.0.99');

/** Where connections to the VIP go from each seat. */
export const followVip = oncePerKernel((state) => ({
  PREROUTING: follow(state, 'PREROUTING', vip),
  OUTPUT: follow(state, 'OUTPUT', vip),
}));

/** Where connections to the ClusterIP go, by kube-proxy's own rules. */
export const followService = oncePerKernel((state) => follow(state, 'PREROUTING', clusterIp));

/** Where they would go, if packets still got to kube-proxy's rules: it leaves them behind without their hooks. */
export const followUnhooked = oncePerKernel((state) => {
  const ends = new Set<string>();
  followIptables(state, 'KUBE-SERVICES', clusterIp, ends);
  return ends;
});

/**
 * All ends that a connection to an address can have, as chance decides: endpoints' texts, `untranslated`, `dropped`.
 * One that is sent to the ClusterIP ends at the real servers of IPVS, and without any nowhere: there is one translation for a connection.
 */
function follow(state: KernelState, seat: Seat, to: Endpoint): ReadonlySet<string> {
  const ends = new Set<string>();
  if (!followNft(state, seat, to, ends)) followIptables(state, seat, to, ends);
  if (!ends.delete(formatEndpoint(clusterIp))) return ends;
  const servers = listRealServers(state);
  return new Set([...ends, ...(servers.length === 0 ? ['nowhere'] : servers)]);
}

/** Our own table comes first. Answers whether it decides about every packet. */
function followNft({ kernel }: KernelState, seat: Seat, to: Endpoint, ends: Set<string>): boolean {
  const chains = listNftChains(kernel.showNft('ipv4'));
  const rulesOf = (chain: string) => chains.get(chain) ?? [];
  const isForIt = (rule: string) => rule.startsWith(`ip daddr ${to.address} tcp dport ${to.port} `);
  const [, target = ''] = /jump (\S+)/.exec(rulesOf(seat.toLowerCase()).find(isForIt) ?? '') ?? [];
  for (const rule of rulesOf(target)) {
    const [, mod, end] = /^meta l4proto 6 (?:numgen random mod (\d+) 0 )?dnat to (\S+)/.exec(rule) ?? [];
    if (end !== undefined) ends.add(end);
    if (end !== undefined && mod === undefined) return true;
  }
  return false;
}

function listNftChains(text: string): ReadonlyMap<string, readonly string[]> {
  const chains = new Map<string, string[]>();
  let current: string[] = [];
  for (const line of text.split('\n')) {
    const [, name] = /^\tchain (\S+) \{$/.exec(line) ?? [];
    if (name === undefined) current.push(line.trim());
    else chains.set(name, (current = []));
  }
  return chains;
}

interface Walk {
  readonly rulesOf: (chain: string) => readonly string[];
  readonly to: Endpoint;
  readonly ends: Set<string>;
}

function followIptables({ kernel }: KernelState, chain: string, to: Endpoint, ends: Set<string>): void {
  const chains = new Map(
    listChains(kernel, nft).flatMap(({ table, chain: name, rules }) =>
      table === 'nat' ? [[name, rules] as const] : [],
    ),
  );
  const rulesOf = (chain: string) => chains.get(chain) ?? [];
  if (!walk({ rulesOf, to, ends }, chain)) ends.add(untranslated);
}

/** Answers whether the chain decides about every packet. */
function walk(around: Walk, chain: string): boolean {
  for (const rule of around.rulesOf(chain)) {
    const match = matchPacket(rule, around.to);
    if (match === 'no') continue;
    const isDecided = act(around, rule);
    if (isDecided && match === 'yes') return true;
    if (/ -j RETURN$|^-j RETURN$/.test(rule) && match === 'yes') return false;
  }
  return false;
}

/** What targets that end a packet's way make of it. */
const verdicts: Readonly<Record<string, string>> = { ACCEPT: untranslated, REJECT: dropped, DROP: dropped };

/** Answers whether the rule decides about every packet that it matches. */
function act(around: Walk, rule: string): boolean {
  const [, target = 'RETURN', more = ''] = /(?:^| )-j (\S+) ?(.*)$/.exec(rule) ?? [];
  if (target === 'MARK' || target === 'RETURN') return false;
  const end = target === 'DNAT' ? more.replace('--to-destination ', '') : verdicts[target];
  if (end === undefined) return walk(around, target);
  around.ends.add(end);
  return true;
}

function matchPacket(rule: string, to: Endpoint): 'yes' | 'no' | 'perhaps' {
  const isMatching = [...rule.matchAll(/(! )?(-s|-d|-p|--dport|--mark|--match-set) (\S+)/g)].every(
    ([, negation, option = '', value = '']) => matchOne(option, value, to) === (negation === undefined),
  );
  if (!isMatching) return 'no';
  return /--probability|--dst-type/.test(rule) ? 'perhaps' : 'yes';
}

function matchOne(option: string, value: string, to: Endpoint): boolean {
  if (option === '-s') return client.match(ipaddr.parseCIDR(value));
  if (option === '-d') return ipaddr.parse(to.address).match(ipaddr.parseCIDR(value));
  if (option === '-p') return value === 'tcp';
  if (option === '--dport') return value === String(to.port);
  return option === '--match-set' && to.address === clusterIp.address;
}

/** The real servers of the ClusterIP's virtual server. */
export function listRealServers({ reading }: KernelState): string[] {
  const [, servers = ''] = /^TCP {2}0A600001:01BB.*\n((?: {2}-> .*\n)*)/m.exec(reading.ipvs ?? '') ?? [];
  return [...servers.matchAll(/-> ([0-9A-F]{8}):([0-9A-F]{4})/g)].map(([, address = '', port = '']) => {
    const parts = address.match(/../g) ?? [];
    return `${parts.map((part) => parseInt(part, 16)).join('.')}:${parseInt(port, 16)}`;
  });
}

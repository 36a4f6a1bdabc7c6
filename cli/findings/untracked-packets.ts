/**
 * Packets of balanced connections that rules of others keep from being tracked: before connection tracking, by NOTRACK in iptables or notrack in
 * nft. What is not tracked is not translated. Nothing of vipnat can undo that.
 */
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type EarlyRules } from '../../lib/kernel/real/early-rules.ts';
import { mayMatch, surelyMatches } from '../../lib/netfilter/iptables/may-match.ts';
import { type Packet } from '../../lib/netfilter/iptables/packets.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import { type EarlyChains, type EarlyRule, parseEarlyRules } from './early-chains.ts';
import { isBalanced } from '../../config/way.ts';
import type { HostLook } from '../../agent/main.ts';

/** A rule that keeps packets of balanced connections from being tracked. */
export interface UntrackedPackets {
  /** For people: `table raw of iptables-nft`. */
  readonly place: string;
  readonly rule: string;
  /** Which packets: `packets to 10.0.0.50:6443`, `packets from 10.0.0.11:6443`, each once. */
  readonly packets: readonly string[];
  /** Whether it surely does; else it asks for something that may and may not be so. */
  readonly isSure: boolean;
  /** Commands for a shell that let these packets, and no others, pass it. */
  readonly exemptions: readonly string[];
}

/** Of the VIPs that are balanced, on this host. Pure. Rejects as parseEarlyRules does. */
export function findUntrackedPackets(
  rules: readonly EarlyRules[],
  { decisions, observation }: Pick<HostLook, 'decisions' | 'observation'>,
): UntrackedPackets[] {
  const local = new Set(observation.addresses.map(({ address }) => address));
  const probes = decisions.filter(isBalanced).flatMap(({ vip, backends }) => [
    ...(['prerouting', 'output'] as const).map((hook) => toProbe(hook, 'to', vip)),
    ...backends.map((one) => toProbe('prerouting', 'from', one)),
    // What this host's own apiserver answers.
    ...backends.filter(({ address }) => local.has(address)).map((one) => toProbe('output', 'from', one)),
  ]);
  const found = rules
    .map(parseEarlyRules)
    .flatMap((place) => families.flatMap((family) => narrow(place, family)))
    .flatMap((place) => probes.flatMap((probe) => tryProbe(place, probe)));
  return [...Map.groupBy(found, ({ place, rule }) => `${place} ${rule}`).values()].flatMap(merge);
}

/** One sentence, without its full stop. */
export function describeUntracked({ place, rule, packets, isSure }: UntrackedPackets): string {
  const verb = isSure ? 'keeps' : 'may keep';
  return `${place} ${verb} ${packets.join(', ')} from being tracked, so vipnat's rules do not see them: ${rule}`;
}

/** A packet, and where its way on this host begins. */
interface Probe {
  readonly hook: 'prerouting' | 'output';
  readonly direction: 'to' | 'from';
  readonly endpoint: Endpoint;
  readonly packet: Packet;
}

function toProbe(hook: Probe['hook'], direction: Probe['direction'], endpoint: Endpoint): Probe {
  const ends =
    direction === 'to' ? { source: null, destination: endpoint } : { source: endpoint, destination: null };
  const packet = {
    ...ends,
    states: ['UNTRACKED'],
    isTranslated: false,
    isFromOutside: hook === 'prerouting',
  };
  return { hook, direction, endpoint, packet };
}

/** Any packet of TCP. */
const anyPacket: Packet = {
  ...{ source: null, destination: null, states: ['UNTRACKED'], isTranslated: false },
  isFromOutside: false,
};

/**
 * A place as it is for TCP of one family. None where no rule then keeps any packet from being tracked: lists of tens of thousands of
 * others' addresses are gone through once, not once for each packet.
 */
function narrow(place: EarlyChains, family: Family): EarlyChains[] {
  if (place.family !== null && place.family !== family) return [];
  const isFor = ({ family: of, rule }: EarlyRule) =>
    (of === null || of === family) && mayMatch(rule, anyPacket);
  const chains = new Map([...place.chains].map(([name, rules]) => [name, rules.filter(isFor)]));
  const rules = [...chains.values()].flat();
  return rules.some(({ verdict }) => verdict === 'notrack') ? [{ ...place, family, chains }] : [];
}

function tryProbe(place: EarlyChains, probe: Probe): UntrackedPackets[] {
  const { hook, direction, endpoint, packet } = probe;
  if (place.family !== endpoint.family) return [];
  return place.bases
    .filter((base) => base.hook === hook)
    .flatMap(({ chain }) => {
      const hit = walk(place.chains, chain, packet);
      if (hit === 'end' || hit === null) return [];
      return {
        ...{ place: place.place, rule: hit.text, isSure: hit.isSure },
        packets: [`packets ${direction} ${formatEndpoint(endpoint)}`],
        exemptions: [quoteWords([...place.insert(chain), ...exempt(place, probe)])],
      };
    });
}

function exempt(
  { insert }: EarlyChains,
  { direction, endpoint: { family, address, port } }: Probe,
): string[] {
  const isTo = direction === 'to';
  return insert('')[0] === 'nft'
    ? [
        familyToNft[family],
        isTo ? 'daddr' : 'saddr',
        address,
        'tcp',
        isTo ? 'dport' : 'sport',
        String(port),
        'accept',
      ]
    : [
        ...['-p', 'tcp', isTo ? '-d' : '-s', address, isTo ? '--dport' : '--sport', String(port)],
        '-j',
        'ACCEPT',
      ];
}

/** The kernel takes no deeper jumps. */
const maxDepth = 16;

/** The rule that keeps a packet from being tracked, and whether the packet surely gets to it and matches. */
interface Hit {
  readonly text: string;
  readonly isSure: boolean;
}

/** `end` where a rule surely ends a packet's way before, and null where none of the chain does. */
function walk(chains: EarlyChains['chains'], chain: string, packet: Packet, depth = 0): Hit | 'end' | null {
  const walkInto = (to: string) => (depth === maxDepth ? null : walk(chains, to, packet, depth + 1));
  let isReached = true;
  for (const one of (chains.get(chain) ?? []).filter(({ rule }) => mayMatch(rule, packet))) {
    const found = follow(one, walkInto);
    const isSure = surelyMatches(one.rule, packet);
    if (isHit(found)) return { ...found, isSure: found.isSure && isSure && isReached };
    if (found !== null && isSure) return toCaller(found);
    if (found !== null) isReached = false;
  }
  return null;
}

/** What ends in a chain may go on in the one that led to it. */
function toCaller(found: 'end' | 'return'): 'end' | null {
  return found === 'end' ? found : null;
}

function isHit(found: Hit | 'end' | 'return' | null): found is Hit {
  return found !== null && typeof found === 'object';
}

/** What comes of a rule that matches; null where the way goes on behind it. */
function follow(
  { text, verdict }: EarlyRule,
  walkInto: (chain: string) => Hit | 'end' | null,
): Hit | 'end' | 'return' | null {
  if (typeof verdict === 'object') return walkInto(verdict.jump) ?? (verdict.isGoto ? 'return' : null);
  if (verdict === 'notrack') return { text, isSure: true };
  return verdict === 'pass' ? null : verdict;
}

function merge([first, ...more]: readonly UntrackedPackets[]): UntrackedPackets[] {
  if (first === undefined) return [];
  const all = [first, ...more];
  return [
    {
      ...first,
      packets: [...new Set(all.flatMap(({ packets }) => packets))],
      isSure: all.some(({ isSure }) => isSure),
      exemptions: [...new Set(all.flatMap(({ exemptions }) => exemptions))],
    },
  ];
}

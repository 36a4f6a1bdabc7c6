import { type Endpoint, formatEndpoint } from '../../../lib/address/endpoint.ts';
import { type EarlyRules } from '../../../lib/kernel/real/early-rules.ts';
import { mayMatch, surelyMatches } from '../../../lib/netfilter/iptables/may-match.ts';
import { type Packet } from '../../../lib/netfilter/iptables/packets.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { type Assessment } from '../../../agent/decide/assess.ts';
import { isBalanced } from '../../../config/way.ts';
import { type EarlyChains, type EarlyRule, type EndPackets, parseEarlyRules } from './early-chains.ts';

/**
 * Packets of balanced connections that rules of others keep from being tracked: before connection tracking, by NOTRACK in iptables or notrack in
 * nft. What is not tracked is not translated. Nothing of vipnat can undo that.
 */

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
  { decisions, observation }: Pick<Assessment, 'decisions' | 'observation'>,
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
    .flatMap((place) => probes.flatMap((probe) => tryProbe(place, probe)));
  return [...Map.groupBy(found, ({ place, rule }) => `${place} ${rule}`).values()].flatMap(merge);
}

/** A packet, and where its way on this host begins. */
interface Probe extends EndPackets {
  readonly hook: 'prerouting' | 'output';
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

function tryProbe(place: EarlyChains, probe: Probe): UntrackedPackets[] {
  const { hook, direction, endpoint, packet } = probe;
  if (place.family !== null && place.family !== endpoint.family) return [];
  return place.bases
    .filter((base) => base.hook === hook)
    .flatMap(({ chain }) => {
      const hit = walk(place.chains, chain, packet);
      if (hit === 'end' || hit === null) return [];
      return {
        ...{ place: place.place, rule: hit.text, isSure: hit.isSure },
        packets: [`packets ${direction} ${formatEndpoint(endpoint)}`],
        exemptions: [quoteWords(place.exempt(chain, probe))],
      };
    });
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
  for (const one of (chains.get(chain) ?? []).filter((each) => mayConcern(each, packet))) {
    const found = follow(one, walkInto);
    const isSure = surelyMatches(one.rule, packet);
    if (isHit(found)) return { ...found, isSure: found.isSure && isSure && isReached };
    if (found !== null && isSure) return toCaller(found);
    if (found !== null) isReached = false;
  }
  return null;
}

function mayConcern({ family, rule }: EarlyRule, packet: Packet): boolean {
  const end = packet.source ?? packet.destination;
  return (family === null || family === end?.family) && mayMatch(rule, packet);
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

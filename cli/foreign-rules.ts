import type { HostReading } from '../agent/main.ts';
import type { EarlyRules } from '../lib/kernel/iptables.ts';
import { isBalanced } from '../config/options.ts';
import {
  type Packet,
  listPackets,
  type Ruleset,
  splitRule,
  surelyMatches,
  mayMatch,
  type Rule,
  parseRule,
} from '../lib/iptables/rules.ts';
import type { Balance } from '../lib/dialect.ts';
import { type Endpoint, formatEndpoint, type Family } from '../lib/net.ts';
import { quoteWords } from '../lib/text.ts';
import { toolName, familyToNft, type ForwardChain, type LocalAddress, ownTable } from '../lib/kernel/port.ts';
import { splitLines } from '../lib/kernel/tools.ts';
import { readNftObjects } from '../lib/nft/table.ts';

/** Foreign rules that keep balanced connections from their apiservers, and that no rule of vipnat can overrule. */

/** A foreign rule that drops connections, in a chain where vipnat has no rule. */
interface DropRule {
  /** For people: `mangle FORWARD of iptables-nft`. */
  readonly place: string;
  readonly rule: string;
  /** The command that deletes it, or accepts what it drops. */
  readonly remedy: string;
}

/** One sentence, without its full stop. */
export function describeDropRule({ place, rule }: DropRule): string {
  return `${place} drops balanced connections: ${rule}`;
}

/** What balanced packets pass, whatever the tables behind decide. In INPUT, health does not show it: a host asks its own apiserver over lo. */
const places = [
  ['mangle', 'PREROUTING'],
  ['mangle', 'FORWARD'],
  ['mangle', 'POSTROUTING'],
  ['filter', 'INPUT'],
] as const;

/**
 * Rules right in the kernel's chains of table mangle that drop all connections to a VIP or to an apiserver, or its replies, and in INPUT those
 * to this host's own. A rule that drops those of some clients is meant, and so is one behind a rule that may let some pass, or leads them
 * elsewhere. Rules in other chains are not looked for. Pure.
 */
export function findDropRules(
  reading: Pick<HostReading, 'decisions'> & {
    readonly observation: Pick<HostReading['observation'], 'addresses' | 'rulesets'>;
  },
): DropRule[] {
  const { addresses, rulesets } = reading.observation;
  return rulesets.flatMap((ruleset) => {
    const balances = reading.decisions
      .filter((one) => isBalanced(one) && one.vip.family === ruleset.family)
      .map(({ vip, backends }): Balance => ({
        ...{ vip, apiservers: backends, masquerade: 'own' },
        route: { kind: 'translate', backends },
      }));
    const arriving = listArriving(balances, addresses);
    return places.flatMap((place) =>
      findIn(ruleset, place, place[0] === 'filter' ? arriving : listPackets(place[1], balances)),
    );
  });
}

/** New connections to this host's own apiserver, by the interface of its address: most clients come by that. */
function listArriving(balances: readonly Balance[], addresses: readonly LocalAddress[]): Packet[] {
  const all = balances.flatMap(({ apiservers = [] }) => apiservers);
  return addresses.flatMap(({ address, device }) =>
    all
      .filter((one) => one.address === address)
      .map((destination) => ({
        ...{ source: null, destination, device, states: ['NEW'] },
        ...{ isTranslated: true, isFromOutside: true },
      })),
  );
}

function findIn(
  { family, dialect, tables, hidesPorts }: Ruleset,
  [table, chain]: (typeof places)[number],
  packets: readonly Packet[],
): DropRule[] {
  // Whatever is printed there may ask for more.
  if (hidesPorts) return [];
  const tool = toolName(family, dialect);
  const rules = (tables.get(table)?.get(chain) ?? []).map(parseRule);
  const accept = ['-I', chain, '-p', 'tcp', '--dport', String(packets[0]?.destination?.port), '-j', 'ACCEPT'];
  return rules
    .filter(
      (rule, index) =>
        ['DROP', 'REJECT'].includes(rule.target ?? '') &&
        packets.some((packet) => surelyMatches(rule, packet) && !mayPass(rules.slice(0, index), packet)),
    )
    .map(({ text }) => ({
      place: `${table} ${chain} of ${tool}`,
      rule: text,
      // The last rule of a firewall is not to go.
      remedy: quoteWords([
        tool,
        ...(table === 'filter' ? accept : ['-t', table, '-D', chain, ...splitRule(text)]),
      ]),
    }));
}

/** Targets that let no packet pass by what follows. Chains of kubelet, kube-proxy and vipnat accept no connection to an apiserver here. */
const passesNobody =
  /^(?:DROP|REJECT|LOG|NFLOG|(?:CONN)?MARK|TCPMSS|VIPNAT-INPUT|KUBE-(?:(?:PROXY-)?FIREWALL|NODEPORTS|(?:EXTERNAL-)?SERVICES))?$/;

/** Whether one of these rules may let a packet pass by all that follow. */
function mayPass(rules: readonly Rule[], packet: Packet): boolean {
  return rules.some((rule) => !passesNobody.test(rule.target ?? '') && mayMatch(rule, packet));
}

/**
 * Foreign chains that drop what is balanced and sent to apiservers on other hosts, and that no rule of vipnat can
 * overrule: an accept counts in its own chain only, and vipnat does not write to these (docs/adr/0013). By policies and last rules:
 * rules that drop some packets are not examined.
 */
export function findForeignDrops(
  chains: readonly ForwardChain[],
  { decisions, observation }: Pick<HostReading, 'decisions' | 'observation'>,
): ForwardChain[] {
  const families = new Set(decisions.filter(isBalanced).map(({ vip }) => vip.family));
  const kinds: readonly string[] = [...families].map((family) => familyToNft[family]);
  // Where an iptables is, vipnat makes its chain accept. Any other chain of that table was made by nft, and iptables cannot show it.
  const written = [...families]
    .filter((family) =>
      observation.rulesets.some(
        (seen) => seen.family === family && seen.dialect === 'nft' && !seen.unread.includes('filter'),
      ),
    )
    .map((family) => `${familyToNft[family]} filter FORWARD`);
  return chains.filter(({ table, name, isDropping }) => {
    const [kind = ''] = table.split(' ');
    const isMet = kind === 'inet' ? families.size > 0 : kinds.includes(kind);
    return isDropping && isMet && !written.includes(`${table} ${name}`) && !table.endsWith(` ${ownTable}`);
  });
}

/** The command that has such a chain accept what is balanced. */
export function formatAccept({ table, name }: Pick<ForwardChain, 'table' | 'name'>): string {
  return quoteWords(['nft', 'insert', 'rule', ...table.split(' '), name, 'ct', 'status', 'dnat', 'accept']);
}

/**
 * Packets of balanced connections that foreign rules keep from being tracked: before connection tracking, by NOTRACK in iptables or notrack in
 * nft. What is not tracked is not translated. vipnat cannot undo that.
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

/** Of the VIPs that are balanced, on this host. Pure. Rejects text of nft that is not one whole table, as readNftObjects does. */
export function findUntrackedPackets(
  rules: readonly EarlyRules[],
  { decisions, observation }: Pick<HostReading, 'decisions' | 'observation'>,
): UntrackedPackets[] {
  const local = new Set(observation.addresses.map(({ address }) => address));
  const probes = decisions.filter(isBalanced).flatMap(({ vip, backends }) => [
    ...hooks.map((hook) => toProbe(hook, 'to', vip)),
    ...backends.map((one) => toProbe('prerouting', 'from', one)),
    // What this host's own apiserver answers.
    ...backends.filter(({ address }) => local.has(address)).map((one) => toProbe('output', 'from', one)),
  ]);
  const found = rules.flatMap((one) => {
    const place = one.kind === 'iptables' ? parseIptables(one) : parseNft(one);
    const hits = probes.flatMap((probe) => tryProbe(place, probe));
    return hidesPorts(one, observation) ? hits.map((hit) => ({ ...hit, isSure: false })) : hits;
  });
  return [...Map.groupBy(found, ({ place, rule }) => `${place} ${rule}`).values()].flatMap(merge);
}

function hidesPorts(rules: EarlyRules, { rulesets }: HostReading['observation']): boolean {
  return (
    rules.kind === 'iptables' &&
    rulesets.some((one) => one.hidesPorts && one.family === rules.family && one.dialect === rules.dialect)
  );
}

/** Where the path of a packet on this host begins: of one that arrives, and of one that this host sends. */
const hooks = ['prerouting', 'output'] as const;

interface Probe extends EndPackets {
  readonly hook: (typeof hooks)[number];
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

/** `end` where a rule surely ends a packet's path before, and null where none of the chain does. */
function walk(chains: EarlyChains['chains'], chain: string, packet: Packet, depth = 0): Hit | 'end' | null {
  const walkInto = (to: string) => (depth === maxDepth ? null : walk(chains, to, packet, depth + 1));
  let isReached = true;
  for (const one of (chains.get(chain) ?? []).filter((each) => mayConcern(each, packet))) {
    const found = follow(one, walkInto);
    if (found === null) continue;
    const isSure = surelyMatches(one.rule, packet);
    if (typeof found === 'object') return { ...found, isSure: found.isSure && isSure && isReached };
    // What ends in a chain may continue in the one that led to it.
    if (isSure) return found === 'end' ? found : null;
    isReached = false;
  }
  return null;
}

function mayConcern({ family, rule }: EarlyRule, packet: Packet): boolean {
  const end = packet.source ?? packet.destination;
  return (family === null || family === end?.family) && mayMatch(rule, packet);
}

/** What comes of a rule that matches; null where the path continues behind it. */
function follow(
  { text, verdict }: EarlyRule,
  walkInto: (chain: string) => Hit | 'end' | null,
): Hit | 'end' | 'return' | null {
  if (typeof verdict === 'object') return walkInto(verdict.jump) ?? (verdict.isGoto ? 'return' : null);
  if (verdict === 'notrack') return { text, isSure: true };
  return verdict === 'pass' ? null : verdict;
}

function merge(all: readonly UntrackedPackets[]): UntrackedPackets[] {
  const [first] = all;
  if (first === undefined) return [];
  return [
    {
      ...first,
      packets: [...new Set(all.flatMap(({ packets }) => packets))],
      isSure: all.some(({ isSure }) => isSure),
      exemptions: [...new Set(all.flatMap(({ exemptions }) => exemptions))],
    },
  ];
}

/** What becomes of a packet that a rule matches. */
type EarlyVerdict =
  | 'notrack'
  | 'end'
  | 'return'
  | 'pass'
  /** From `goto` no packet comes back to the rules behind. */
  | { readonly jump: string; readonly isGoto: boolean };

interface EarlyRule {
  readonly text: string;
  readonly rule: Rule;
  /** Whose packets alone can match, in a table of both families; null where both can. */
  readonly family: Family | null;
  readonly verdict: EarlyVerdict;
}

interface EarlyChains {
  /** Null for both. */
  readonly family: Family | null;
  /** For people: `table raw of iptables-nft`, `table inet fast of nft`. */
  readonly place: string;
  readonly chains: ReadonlyMap<string, readonly EarlyRule[]>;
  /** Where packets begin. */
  readonly bases: readonly { readonly hook: Probe['hook']; readonly chain: string }[];
  /** The words of the command that lets packets pass a chain as they are, tracked. */
  readonly exempt: (chain: string, packets: EndPackets) => string[];
}

/** Packets of TCP to an endpoint, or from it. */
interface EndPackets {
  readonly direction: 'to' | 'from';
  readonly endpoint: Endpoint;
}

function parseIptables({ family, dialect, text }: Extract<EarlyRules, { kind: 'iptables' }>): EarlyChains {
  const tool = toolName(family, dialect);
  const chains = new Map<string, Rule[]>();
  for (const line of splitLines(text)) {
    const [, declared, chain = '', rule = ''] = /^(?::(\S+) .*|-A (\S+) ([^]*))$/.exec(line) ?? [];
    if (declared !== undefined) chains.set(declared, []);
    else chains.get(chain)?.push(parseRule(rule));
  }
  return {
    ...{ family, place: `table raw of ${tool}` },
    chains: new Map(
      [...chains].map(([chain, list]) => [
        chain,
        list.map((rule) => ({
          ...{ text: rule.text, rule, family: null },
          verdict: judge(rule, new Set(chains.keys())),
        })),
      ]),
    ),
    bases: hooks.map((hook) => ({ hook, chain: hook.toUpperCase() })),
    exempt: (chain, { direction, endpoint: { address, port } }) => {
      const [host, end] = direction === 'to' ? ['-d', '--dport'] : ['-s', '--sport'];
      return [tool, '-t', 'raw', '-I', chain, '-p', 'tcp', host, address, end, String(port), '-j', 'ACCEPT'];
    },
  };
}

function judge({ target, options }: Rule, chains: ReadonlySet<string>): EarlyVerdict {
  if (target === null) return 'pass';
  if (target === 'NOTRACK' || (target === 'CT' && options.has('--notrack'))) return 'notrack';
  if (target === 'ACCEPT' || target === 'DROP') return 'end';
  if (target === 'RETURN') return 'return';
  return chains.has(target) ? { jump: target, isGoto: !options.has('-j') } : 'pass';
}

function parseNft({ table, text }: Extract<EarlyRules, { kind: 'nftables' }>): EarlyChains {
  const objects =
    text === '' ? [] : readNftObjects(text, table).objects.filter(({ kind }) => kind === 'chain');
  const [layer] = table.split(' ');
  return {
    family: layer === 'ip' ? 'ipv4' : layer === 'ip6' ? 'ipv6' : null,
    place: `table ${table} of nft`,
    chains: new Map(
      objects.map(({ name, statements }) => [
        name,
        statements.filter((statement) => !/^(?:type|comment) /.test(statement)).map(toEarlyRule),
      ]),
    ),
    bases: objects.flatMap(({ name, statements: [head = ''] }) => {
      const hook = hooks.find((one) => head.startsWith(`type filter hook ${one} `));
      return hook === undefined ? [] : [{ hook, chain: name }];
    }),
    exempt: (chain, { direction, endpoint: { family, address, port } }) => {
      const [host, end] = direction === 'to' ? ['daddr', 'dport'] : ['saddr', 'sport'];
      const match = [familyToNft[family], host, address, 'tcp', end, String(port)];
      return ['nft', 'insert', 'rule', ...table.split(' '), chain, ...match, 'accept'];
    },
  };
}

/** What nft prints, by the options that iptables has for it. Whatever else it asks for is one more option, of which nothing is known. */
function toEarlyRule(text: string): EarlyRule {
  const options = new Map<string, string>();
  const add = (option: string, negation: string | undefined, value: string) => {
    options.set(`${negation === undefined ? '' : '!'}${option}`, value);
    return '';
  };
  const rest = text
    .replace(/ comment "[^"]*"$/, '')
    .replaceAll(
      /\bip6? ([sd])addr (!= )?([\da-f.:/]+)(?= |$)/g,
      (_, side: string, not: string | undefined, prefix: string) => add(`-${side}`, not, prefix),
    )
    .replaceAll(/\b(tcp|udp|sctp|dccp)(?= [sd]port )/g, (_, protocol: string) => {
      add('-p', undefined, protocol);
      return 'th';
    })
    .replaceAll(
      /\bth ([sd])port (!= )?(\{[^}]*\}|[\d-]+)(?= |$)/g,
      (_, side: string, not: string | undefined, ports: string) =>
        add(`--${side}port`, not, ports.replaceAll(/[{} ]/g, '').replaceAll('-', ':')),
    )
    .replace(
      /\b(?:meta l4proto|ip protocol|ip6 nexthdr) (!= )?(\w+)(?= |$)/,
      (_, not: string | undefined, protocol: string) => add('-p', not, protocol),
    )
    .replace(/\biif(?:name)? (!= )?"lo"/, (_, not: string | undefined) => add('-i', not, 'lo'))
    .replace(/\bcounter(?: packets \d+ bytes \d+)?/, '')
    .replace(/\b(?:notrack|accept|drop|return|continue|(?:jump|goto) \S+)\b/, '')
    .trim();
  if (rest !== '') options.set('nft', rest);
  const bare = text.replaceAll(/"[^"]*"/g, '');
  return {
    ...{ text, rule: { text, options, target: null, comment: null } },
    ...{ family: readFamily(bare), verdict: judgeNft(bare) },
  };
}

/** nft prints numbers of linux/socket.h where it is asked for numbers. */
function readFamily(bare: string): Family | null {
  if (/\bip6 [a-z]|\bnfproto (?:ipv6|10)\b/.test(bare)) return 'ipv6';
  return /\bip [a-z]|\bnfproto (?:ipv4|2)\b/.test(bare) ? 'ipv4' : null;
}

function judgeNft(bare: string): EarlyVerdict {
  const [, verb, target] = / (jump|goto) (\S+)/.exec(` ${bare}`) ?? [];
  if (/\bnotrack\b/.test(bare)) return 'notrack';
  if (target !== undefined) return { jump: target, isGoto: verb === 'goto' };
  if (/\b(?:accept|drop)\b/.test(bare)) return 'end';
  return /\breturn\b/.test(bare) ? 'return' : 'pass';
}

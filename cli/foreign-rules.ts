import type { HostReading } from '../agent/main.ts';
import type { ForeignRules } from '../lib/kernel/iptables.ts';
import { isBalanced } from '../config/options.ts';
import {
  type Packet,
  listPackets,
  type Ruleset,
  splitRule,
  surelyMatches,
  mayMatch,
  type Rule,
  type Table,
  parseRule,
} from '../lib/iptables/rules.ts';
import type { Balance } from '../lib/dialect.ts';
import { type Endpoint, formatEndpoint, type Family } from '../lib/net.ts';
import { quoteWords } from '../lib/text.ts';
import { toolName, familyToNft, type ForwardChain, ownTable } from '../lib/kernel/port.ts';
import { splitLines } from '../lib/kernel/tools.ts';
import { readNftObjects, readChain, type NftChain } from '../lib/nft/table.ts';

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
  ['mangle', 'INPUT'],
  ['mangle', 'FORWARD'],
  ['mangle', 'POSTROUTING'],
  ['filter', 'INPUT'],
] as const;

type RulesOf = Pick<HostReading, 'decisions'> & {
  readonly observation: Pick<HostReading['observation'], 'addresses' | 'rulesets'>;
};

/**
 * What in iptables' table mangle drops all connections to a VIP or to an apiserver, or its replies, and in INPUT, by its policy too, those
 * to this host's own: per chain the first rule. A rule that drops those of some clients is meant, and so is one behind a rule that may let some
 * pass, or leads to a chain that was not read. Pure.
 */
export function findDropRules(reading: RulesOf): DropRule[] {
  const arriving = listArriving(reading);
  const rulesets = reading.observation.rulesets.filter(({ hidesPorts }) => !hidesPorts);
  return rulesets.flatMap((ruleset) => {
    const balances = listBalances(reading).filter(({ vip }) => vip.family === ruleset.family);
    const tool = toolName(ruleset.family, ruleset.dialect);
    return places.flatMap(([table, base]) => {
      const place = `${table} ${base} of ${tool}`;
      const view = { family: ruleset.family, place, list: listRuleset(ruleset, table) };
      const packets = base === 'INPUT' ? arriving : listPackets(base, balances);
      return findDrops(view, base, packets, ({ chain, text }, port) =>
        // The last rule of a firewall is not to go.
        table === 'filter'
          ? [tool, '-I', base, '-p', 'tcp', '--dport', port, '-j', 'ACCEPT']
          : [tool, '-t', table, '-D', chain, ...splitRule(text)],
      );
    });
  });
}

/** The same of chains that nft made for what arrives at this host. Rejects text of nft as findUntrackedPackets does. */
export function findInputDrops(rules: readonly ForeignRules[], reading: RulesOf): DropRule[] {
  const arriving = listArriving(reading);
  return rules.flatMap((one) => {
    if (one.kind !== 'nftables') return [];
    const view = parseNft(one);
    const bases = view.bases.filter(({ hook }) => hook === 'input');
    return bases.flatMap(({ chain }) =>
      findDrops({ ...view, place: `chain ${chain} of ${view.place}` }, chain, arriving, (_, port) => [
        ...['nft', 'insert', 'rule', ...one.table.split(' '), chain],
        ...['tcp', 'dport', port, 'accept'],
      ]),
    );
  });
}

/** Reads them for it. Rejects as readInputRules does. */
export async function readInputDrops(reading: RulesOf): Promise<DropRule[]> {
  const { readInputRules } = await import('../lib/kernel/iptables.ts');
  return findInputDrops(await readInputRules(), reading);
}

function listBalances({ decisions }: RulesOf): Balance[] {
  return decisions.filter(isBalanced).map(({ vip, backends }) => ({
    ...{ vip, apiservers: backends, masquerade: 'own' },
    route: { kind: 'translate', backends },
  }));
}

/** New connections to this host's own apiserver, by the interface of its address: most clients come by that. */
function listArriving(reading: RulesOf): Packet[] {
  const all = listBalances(reading).flatMap(({ apiservers = [] }) => apiservers);
  return reading.observation.addresses.flatMap(({ address, device }) =>
    all
      .filter((one) => one.address === address)
      .map((destination) => ({
        ...{ source: null, destination, device, states: ['NEW'] },
        ...{ isTranslated: true, isFromOutside: true },
      })),
  );
}

/** A policy is a last rule that every packet matches. */
const dropPolicy: JudgedRule = { text: 'policy drop', rule: parseRule(''), family: null, verdict: 'drop' };

function listRuleset({ tables, inputPolicy }: Ruleset, table: (typeof places)[number][0]): RuleView['list'] {
  const list = listIptables(tables.get(table) ?? new Map());
  const isDropping = table === 'filter' && inputPolicy === 'DROP';
  return (chain) => (isDropping && chain === 'INPUT' ? [...list(chain), dropPolicy] : list(chain));
}

/** The rules that surely drop such packets, of a chain and those it leads to: for each packet the first one. */
function findDrops(
  view: Pick<RuleView, 'family' | 'place' | 'list'>,
  base: string,
  packets: readonly Packet[],
  toRemedy: (hit: Hit, port: string) => readonly string[],
): DropRule[] {
  const found = packets.flatMap((packet) => {
    const hit = walk(view, base, packet, 'drop');
    if (hit?.isSure !== true) return [];
    const remedy = quoteWords(toRemedy(hit, String(packet.destination?.port)));
    return [{ place: view.place, rule: hit.text, remedy }];
  });
  return [...new Map(found.map((one) => [`${one.rule} ${one.remedy}`, one])).values()];
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
  const kinds: readonly string[] = [...families].flatMap((family) => ['inet', familyToNft[family]]);
  // Where an iptables is, vipnat makes its chain accept. Any other chain of that table was made by nft, and iptables cannot show it.
  const written = observation.rulesets
    .filter(({ dialect, unread }) => dialect === 'nft' && !unread.includes('filter'))
    .map(({ family }) => `${familyToNft[family]} filter FORWARD`);
  return chains.filter(({ table, name, isDropping }) => {
    const isMet = kinds.includes(table.split(' ')[0] ?? '');
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
  rules: readonly ForeignRules[],
  { decisions, observation }: Pick<HostReading, 'decisions' | 'observation'>,
): UntrackedPackets[] {
  const local = new Set(observation.addresses.map(({ address }) => address));
  const probes = decisions.filter(isBalanced).flatMap(({ vip, backends }) => [
    ...(['prerouting', 'output'] as const).map((hook) => toProbe(hook, 'to', vip)),
    ...backends.map((one) => toProbe('prerouting', 'from', one)),
    // What this host's own apiserver answers.
    ...backends.filter(({ address }) => local.has(address)).map((one) => toProbe('output', 'from', one)),
  ]);
  const found = rules.flatMap((one) => {
    const place = one.kind === 'iptables' ? parseIptables(one) : parseNft(one);
    const hidesPorts =
      one.kind === 'iptables' &&
      observation.rulesets.some(
        (seen) => seen.hidesPorts && seen.family === one.family && seen.dialect === one.dialect,
      );
    const hits = probes.flatMap((probe) => tryProbe(place, probe));
    return hidesPorts ? hits.map((hit) => ({ ...hit, isSure: false })) : hits;
  });
  return [...Map.groupBy(found, ({ place, rule }) => `${place} ${rule}`).values()].flatMap(merge);
}

/** Where a packet passes that arrives, one that this host sends, and one for this host itself. */
const hooks = ['prerouting', 'output', 'input'] as const;

/** Packets of TCP to an endpoint, or from it. */
interface Probe {
  readonly hook: (typeof hooks)[number];
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

function tryProbe(view: RuleView, probe: Probe): UntrackedPackets[] {
  const { hook, direction, endpoint, packet } = probe;
  return view.bases
    .filter((base) => base.hook === hook)
    .flatMap(({ chain }) => {
      const hit = walk(view, chain, packet, 'notrack');
      if (hit === null) return [];
      return {
        ...{ place: view.place, rule: hit.text, isSure: hit.isSure },
        packets: [`packets ${direction} ${formatEndpoint(endpoint)}`],
        exemptions: [quoteWords(view.exempt(chain, probe))],
      };
    });
}

/** The kernel takes no deeper jumps. */
const maxDepth = 16;

/** The rule that does what is looked for, and whether every such packet gets to one that surely does. */
interface Hit {
  readonly chain: string;
  readonly text: string;
  readonly isSure: boolean;
}

/** A packet that passes the chains of a table. */
interface Path extends Pick<RuleView, 'family' | 'list'> {
  readonly packet: Packet;
  readonly wanted: 'notrack' | 'drop';
  hit: Hit | null;
  /** Which such packets are still here, but for those to which a rule did the wanted thing. */
  reach: 'all' | 'some' | 'none';
}

/** What does the wanted thing to a packet that begins at a chain; null where nothing does. */
function walk(
  view: Pick<Path, 'family' | 'list'>,
  base: string,
  packet: Packet,
  wanted: Path['wanted'],
): Hit | null {
  const family = (packet.source ?? packet.destination)?.family ?? view.family;
  if (view.family !== null && view.family !== family) return null;
  const path: Path = { family, list: view.list, packet, wanted, hit: null, reach: 'all' };
  walkChain(path, base, true);
  return path.hit;
}

function walkChain(path: Path, chain: string, isEach: boolean, depth = 0): void {
  let isSure = isEach;
  const rules = path
    .list(chain)
    .filter(({ family, rule }) => [null, path.family].includes(family) && mayMatch(rule, path.packet));
  for (const one of depth > maxDepth ? [] : rules) {
    if (path.reach === 'none') return;
    const isMatch = surelyMatches(one.rule, path.packet);
    const { jump } = one;
    const isAll = isSure && isMatch;
    if (jump === undefined) decide(path, { ...one, chain, isSure: isAll });
    else walkChain(path, jump, isAll, depth + 1);
    if (isMatch && one.verdict !== 'pass') return;
    isSure &&= one.verdict !== 'return';
  }
}

/** What a rule does to packets; `isSure` where all that came to its chain match. */
function decide(path: Path, { chain, text, verdict, isSure }: JudgedRule & Hit): void {
  if (verdict === path.wanted) {
    const isAll = isSure && path.reach === 'all';
    if (path.hit === null || isAll) path.hit = { chain, text, isSure: isAll };
    if (isAll) path.reach = 'none';
  } else if (verdict === 'end' || verdict === 'drop') {
    path.reach = isSure ? 'none' : 'some';
  }
}

function merge(all: readonly UntrackedPackets[]): UntrackedPackets[] {
  return all.slice(0, 1).map((first) => ({
    ...first,
    packets: [...new Set(all.flatMap(({ packets }) => packets))],
    isSure: all.some(({ isSure }) => isSure),
    exemptions: [...new Set(all.flatMap(({ exemptions }) => exemptions))],
  }));
}

interface JudgedRule {
  readonly text: string;
  readonly rule: Rule;
  /** Whose packets alone can match, in a table of both families; null where both can. */
  readonly family: Family | null;
  /**
   * What becomes of a packet that matches: `end` where it may or does pass all that follow, and `return` also for `goto`, as no packet comes
   * back from there to the rules behind.
   */
  readonly verdict: 'notrack' | 'drop' | 'end' | 'return' | 'pass';
  /** The chain that it goes to first. */
  readonly jump?: string;
}

/** A table, as packets see it. */
interface RuleView {
  /** Null for both. */
  readonly family: Family | null;
  /** For people: `table raw of iptables-nft`, `table inet fast of nft`. */
  readonly place: string;
  /** The rules of a chain, in order. */
  readonly list: (chain: string) => readonly JudgedRule[];
  /** Where packets begin. */
  readonly bases: readonly { readonly hook: Probe['hook']; readonly chain: string }[];
  /** The words of the command that lets packets pass a chain as they are, tracked. */
  readonly exempt: (chain: string, packets: Probe) => string[];
}

function parseIptables({ family, dialect, text }: Extract<ForeignRules, { kind: 'iptables' }>): RuleView {
  const tool = toolName(family, dialect);
  const chains = new Map<string, string[]>();
  for (const line of splitLines(text)) {
    const [, declared, chain = '', rule = ''] = /^(?::(\S+) .*|-A (\S+) ([^]*))$/.exec(line) ?? [];
    if (declared !== undefined) chains.set(declared, []);
    else chains.get(chain)?.push(rule);
  }
  return {
    ...{ family, place: `table raw of ${tool}` },
    list: listIptables(chains),
    bases: hooks.map((hook) => ({ hook, chain: hook.toUpperCase() })),
    exempt: (chain, { direction, endpoint: { address, port } }) => {
      const [host, end] = direction === 'to' ? ['-d', '--dport'] : ['-s', '--sport'];
      return [tool, '-t', 'raw', '-I', chain, '-p', 'tcp', host, address, end, String(port), '-j', 'ACCEPT'];
    },
  };
}

const verdicts: ReadonlyMap<string, JudgedRule['verdict']> = new Map([
  ['ACCEPT', 'end'],
  ['DROP', 'drop'],
  ['REJECT', 'drop'],
  ['RETURN', 'return'],
  ['NOTRACK', 'notrack'],
]);

/** Targets after which the next rule comes. Chains of kubelet and kube-proxy accept no connection to an apiserver here. */
const goesOn =
  /^(?:N?F?LOG|(?:CONN)?MARK|CT|TRACE|TCPMSS|KUBE-(?:(?:PROXY-)?FIREWALL|NODEPORTS|(?:EXTERNAL-)?SERVICES))?$/;

function listIptables(chains: Table): RuleView['list'] {
  return (chain) =>
    (chains.get(chain) ?? []).map((text) => {
      const rule = parseRule(text);
      const { options } = rule;
      const target = options.has('--notrack') ? 'NOTRACK' : (rule.target ?? '');
      const other = goesOn.test(target) ? 'pass' : 'end';
      const known = { text, rule, family: null };
      if (!chains.has(target)) return { ...known, verdict: verdicts.get(target) ?? other };
      return { ...known, verdict: options.has('-g') ? 'return' : 'pass', jump: target };
    });
}

function parseNft({ table, text }: Extract<ForeignRules, { kind: 'nftables' }>): RuleView {
  const read = text === '' ? { flags: '', objects: [] } : readNftObjects(text, table);
  // No packet passes a table that is switched off.
  const objects = read.objects.filter(({ kind }) => kind === 'chain' && !read.flags.includes('dormant'));
  const [layer] = table.split(' ');
  const chains = new Map(objects.map((object) => [object.name, listNftRules(readChain(object))]));
  return {
    family: layer === 'ip' ? 'ipv4' : layer === 'ip6' ? 'ipv6' : null,
    place: `table ${table} of nft`,
    list: (chain) => chains.get(chain) ?? [],
    bases: objects.flatMap(({ name: chain, statements }) =>
      hooks
        .filter((hook) => statements.some((head) => head.startsWith(`type filter hook ${hook} `)))
        .map((hook) => ({ hook, chain })),
    ),
    exempt: (chain, { direction, endpoint: { family, address, port } }) => {
      const [host, end] = direction === 'to' ? ['daddr', 'dport'] : ['saddr', 'sport'];
      const match = [familyToNft[family], host, address, 'tcp', end, String(port)];
      return ['nft', 'insert', 'rule', ...table.split(' '), chain, ...match, 'accept'];
    },
  };
}

function listNftRules({ hook, rules }: NftChain): JudgedRule[] {
  const judged = rules.flatMap(splitMap).map(readNftRule);
  return hook?.includes('policy drop;') === true ? [...judged, dropPolicy] : judged;
}

/** A map of keys to verdicts is a rule for each key. */
function splitMap(text: string): string[] {
  const [, before = '', list] = /^(.*) vmap \{ (.*) \}/.exec(text) ?? [];
  return list?.split(', ').map((one) => `${before} ${one.replace(' : ', ' ')}`) ?? [text];
}

/**
 * What nft prints, by the options that iptables has for it. Whatever else it asks for is one more option, of which nothing is known: also
 * values that are joined by dots, and addresses as conntrack knows them.
 */
function readNftRule(text: string): JudgedRule {
  const options = new Map<string, string>();
  const add =
    (option: string, toValue = (value: string) => value) =>
    (_: string, ...groups: readonly (string | undefined)[]) => {
      const [not, value = ''] = groups;
      options.set(`${not === undefined ? '' : '!'}${option}`, toValue(value.replaceAll(/[{} ]/g, '')));
      return '';
    };
  const toPorts = (ports: string) => ports.replaceAll('-', ':');
  const statement = text
    .replace(/ comment "[^"]*"$/, '')
    .replace(/\breject with .*$/, 'reject')
    .replace(/\blog(?: (?:prefix|group|level|flags|snaplen|queue-threshold) (?:"[^"]*"|\S+))*/, '')
    .replace(/\bcounter(?: packets \d+ bytes \d+)?/, '')
    .replaceAll(/ +/g, ' ')
    .trim();
  const rest = statement
    .replace(/(?<!\. )\b(?:meta l4proto|ip protocol|ip6 nexthdr) (!= )?(\{[^}-]*\}|\w+)(?= |$)/, add('-p'))
    .replaceAll(/(?<!\. |ct (?:original|reply) )\bip6? saddr (!= )?([\da-f:][\da-f.:/]*)(?= |$)/g, add('-s'))
    .replaceAll(/(?<!\. |ct (?:original|reply) )\bip6? daddr (!= )?([\da-f:][\da-f.:/]*)(?= |$)/g, add('-d'))
    .replaceAll(/(?:^| )(icmp|icmpv6|igmp|tcp|udp|sctp|dccp|esp|ah)(?= [a-z])/g, (_, protocol: string) => {
      options.set('-p', protocol);
      return ' th';
    })
    .replaceAll(/(?<!\. )\bth sport (!= )?(\{[^}]*\}|[\d-]+)(?= |$)/g, add('--sport', toPorts))
    .replaceAll(/(?<!\. )\bth dport (!= )?(\{[^}]*\}|[\d-]+)(?= |$)/g, add('--dport', toPorts))
    .replace(/(?<!\. )\bct state (!= )?(\{[^}]*\}|[\w,]+)(?= |$)/, add('--ctstate', toStates))
    .replace(/\bct status ()(?:dnat|0x20)(?= |$)/, () => add('--ctstate#1')('', undefined, 'DNAT'))
    .replace(/\biif(?:name)? (!= )?"([^"*]+)"/, add('-i'))
    .replaceAll(/(?:^| )(?:notrack|accept|drop|reject|return|continue|(?:jump|goto) \S+)(?= |$)/g, '')
    .trim();
  if (rest !== '') options.set('nft', rest);
  const bare = statement.replaceAll(/"[^"]*"/g, '');
  return {
    ...{ text, rule: { text, options, target: null, comment: null } },
    ...{ family: readFamily(bare), ...judgeNft(bare) },
  };
}

/** The bits of `ct state`, from the lowest: nft prints numbers where it is asked for them. linux/netfilter/nf_conntrack_common.h */
const states = ['INVALID', 'ESTABLISHED', 'RELATED', 'NEW', '', '', 'UNTRACKED'];

function toStates(list: string): string {
  const read = (one: string) =>
    one.startsWith('0x') ? states.filter((_, bit) => Number(one) & (1 << bit)) : one.toUpperCase();
  return list.split(',').flatMap(read).join(',');
}

/** nft prints numbers of linux/socket.h where it is asked for numbers. */
function readFamily(bare: string): Family | null {
  if (/\bip6 [a-z]|\bnfproto (?:ipv6|10)\b/.test(bare)) return 'ipv6';
  return /\bip [a-z]|\bnfproto (?:ipv4|2)\b/.test(bare) ? 'ipv4' : null;
}

/** Nothing but a comment comes behind a verdict. */
function judgeNft(bare: string): Pick<JudgedRule, 'verdict' | 'jump'> {
  const [, verb, jump, last = ''] = /(?:(?:^| )(jump|goto) (\S+)|(\w+))$/.exec(bare) ?? [];
  if (/\bnotrack\b/.test(bare)) return { verdict: 'notrack' };
  if (/\b(?:vmap|queue|synproxy)\b/.test(bare)) return { verdict: 'end' };
  if (jump !== undefined) return { verdict: verb === 'goto' ? 'return' : 'pass', jump };
  return { verdict: verdicts.get(last.toUpperCase()) ?? 'pass' };
}

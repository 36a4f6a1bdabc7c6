import { type EarlyRules } from '../../../lib/kernel/real/early-rules.ts';
import { splitLines } from '../../../lib/kernel/tools/save-lines.ts';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { parseRule, type Rule } from '../../../lib/netfilter/iptables/rule.ts';
import { readNftObjects } from '../../../lib/netfilter/nftables/objects.ts';
import { type Family } from '../../../lib/address/address.ts';
import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { familyToNft } from '../../../lib/kernel/netlink/nft-chains.ts';

/** Chains that packets pass before connections are tracked, understood: of iptables' table raw, and of nftables. */

/** What becomes of a packet that a rule matches. */
export type EarlyVerdict =
  | 'notrack'
  | 'end'
  | 'return'
  | 'pass'
  /** From `goto` no packet comes back to the rules behind. */
  | { readonly jump: string; readonly isGoto: boolean };

/** A rule. */
export interface EarlyRule {
  readonly text: string;
  readonly rule: Rule;
  /** Whose packets alone can match, in a table of both families; null where both can. */
  readonly family: Family | null;
  readonly verdict: EarlyVerdict;
}

/** The chains of one place. */
export interface EarlyChains {
  /** Null for both. */
  readonly family: Family | null;
  /** For people: `table raw of iptables-nft`, `table inet fast of nft`. */
  readonly place: string;
  readonly chains: ReadonlyMap<string, readonly EarlyRule[]>;
  /** Where packets begin: of packets that arrive, and of those that this host sends. */
  readonly bases: readonly { readonly hook: 'prerouting' | 'output'; readonly chain: string }[];
  /** The words of the command that lets packets pass a chain as they are, tracked. */
  readonly exempt: (chain: string, packets: EndPackets) => string[];
}

/** Packets of TCP to an endpoint, or from it. */
export interface EndPackets {
  readonly direction: 'to' | 'from';
  readonly endpoint: Endpoint;
}

/** Pure. Rejects text of nft that is not one whole table, as readNftObjects does. */
export function parseEarlyRules(rules: EarlyRules): EarlyChains {
  return rules.kind === 'iptables' ? parseIptables(rules) : parseNft(rules);
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
    bases: [
      { hook: 'prerouting', chain: 'PREROUTING' },
      { hook: 'output', chain: 'OUTPUT' },
    ],
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
  const heads = objects.map(({ name, statements }) => ({
    chain: name,
    hook: /^type filter hook (prerouting|output) /.exec(statements[0] ?? '')?.[1],
  }));
  return {
    family: layer === 'ip' ? 'ipv4' : layer === 'ip6' ? 'ipv6' : null,
    place: `table ${table} of nft`,
    chains: new Map(
      objects.map(({ name, statements }) => [
        name,
        statements.filter((statement) => !/^(?:type|comment) /.test(statement)).map(toEarlyRule),
      ]),
    ),
    bases: heads.flatMap(({ hook, chain }) =>
      hook === 'prerouting' || hook === 'output' ? [{ hook, chain }] : [],
    ),
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

import { type Family, parseAddress } from '../../../lib/net.ts';
import { type Options, aliases, matchToOptions, targetToOptions } from './extensions.ts';
import ipaddr from 'ipaddr.js';

/** A rule as the tools print it, without `-A CHAIN `, and where it leads. */
interface NormalRule {
  readonly text: string;
  readonly target: string | null;
}

/**
 * Reads a rule as the tools do and prints it as they do: two texts of the same rule come out the same. Throws a
 * plain Error with the tools' words for what they refuse.
 */
export function normaliseRule(words: readonly Word[], family: Family): NormalRule {
  const draft: Draft = { base: new Map(), groups: [], target: null };
  for (let at = 0; at < words.length;) at += takeOption(draft, words.slice(at));
  return { text: print(draft, family), target: draft.target?.name ?? null };
}

/** A word of a script line. */
export interface Word {
  readonly text: string;
  readonly isQuoted: boolean;
}

/** Splits a line as iptables-restore does: blanks separate, double quotes group, a backslash inside them escapes. */
export function splitWords(line: string): Word[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) =>
    quoted === undefined
      ? { text: plain ?? '', isQuoted: false }
      : { text: quoted.replaceAll(/\\(.)/g, '$1'), isQuoted: true },
  );
}

interface Group {
  readonly name: string;
  readonly known: Options;
  readonly options: Map<string, string>;
}

interface Draft {
  readonly base: Map<string, string>;
  readonly groups: Group[];
  target: (Group & { readonly flag: string }) | null;
}

const baseOptions = ['-s', '-d', '-i', '-o', '-p'];

/** Takes one option with its values off the words; answers how many words that was. */
function takeOption(draft: Draft, words: readonly Word[]): number {
  const isNegated = isPlain(words[0], '!');
  const [head = { text: '', isQuoted: true }, ...values] = isNegated ? words.slice(1) : words;
  if (head.isQuoted || !head.text.startsWith('-')) throw new Error(`Bad argument \`${head.text}'`);
  const option: OptionWords = {
    name: aliases[head.text] ?? head.text,
    prefix: isNegated ? '! ' : '',
    values: values.map(({ text }) => text),
  };
  const taken = takeBaseOption(draft, option) ?? takeExtensionOption(draft, option);
  return isNegated ? taken + 1 : taken;
}

interface OptionWords {
  readonly name: string;
  /** `! ` or nothing. */
  readonly prefix: string;
  /** All words after the option: it takes as many as it needs. */
  readonly values: readonly string[];
}

/** Null when it is an extension's. */
function takeBaseOption(draft: Draft, { name, prefix, values }: OptionWords): number | null {
  const [value = ''] = values;
  if (baseOptions.includes(name)) draft.base.set(name, prefix + value);
  else if (name === '-m') draft.groups.push(createMatch(value));
  else if (name === '-j' || name === '-g') draft.target = { ...createTarget(value), flag: name };
  else return null;
  return 2;
}

function isPlain(word: Word | undefined, text: string): boolean {
  return word?.isQuoted === false && word.text === text;
}

function createMatch(name: string): Group {
  const known = matchToOptions[name];
  if (known === undefined) throw new Error(`Couldn't load match \`${name}':No such file or directory`);
  return { name, known, options: new Map() };
}

/** A name that is no target is a chain's, and a chain takes no options. */
function createTarget(name: string): Group {
  return { name, known: targetToOptions[name] ?? {}, options: new Map() };
}

function takeExtensionOption(draft: Draft, { name, prefix, values }: OptionWords): number {
  const group = findGroup(draft, name);
  const arity = group.known[name] ?? 0;
  const taken = values.slice(0, arity);
  if (taken.length < arity) throw new Error(`option "${name}" requires an argument`);
  group.options.set(name, `${prefix}${printOption(name, taken)}`);
  return 1 + arity;
}

/** The newest extension that knows the option, or else the protocol's own match, which needs no `-m`. */
function findGroup(draft: Draft, option: string): Group {
  const loaded = [draft.target, ...draft.groups.toReversed()].find(
    (group) => group !== null && option in group.known,
  );
  if (loaded !== undefined && loaded !== null) return loaded;
  const protocol = printProtocol(draft.base.get('-p') ?? '') ?? '';
  const known = matchToOptions[protocol];
  if (known === undefined || !(option in known)) throw new Error(`unknown option "${option}"`);
  const implied = { name: protocol, known, options: new Map<string, string>() };
  draft.groups.push(implied);
  return implied;
}

function printOption(name: string, values: readonly string[]): string {
  const [first = ''] = values;
  if (name === '--comment' || name === '--log-prefix') return `${name} ${printComment(first)}`;
  // libxt_nfacct 1.8.9 prints two blanks.
  if (name === '--nfacct-name') return `${name}  ${first}`;
  if (name === '--probability') return `${name} ${printProbability(first)}`;
  if (/^--ct(?:orig|repl)(?:src|dst)$/.test(name))
    return `${name} ${printAddress(first.replace(/\/(?:32|128)$/, ''))}`;
  if (/^--(?:set|or|xor)-mark$/.test(name)) return `--set-xmark ${printMark(name, first)}`;
  return [name, ...values].join(' ');
}

function print({ base, groups, target }: Draft, family: Family): string {
  const parts = [
    ...baseOptions.map((option) => printBase(option, base.get(option), family)),
    ...groups.map((group) => `-m ${[group.name, ...printOptions(group, family)].join(' ')}`),
    target === null ? '' : [target.flag, target.name, ...printOptions(target, family)].join(' '),
  ];
  return parts.filter((part) => part !== '').join(' ');
}

function printBase(option: string, value: string | undefined, family: Family): string {
  if (value === undefined) return '';
  const isNegated = value.startsWith('! ');
  const plain = isNegated ? value.slice(2) : value;
  const printed = option === '-p' ? printProtocol(plain) : printInterfaceOrPrefix(option, plain, family);
  return printed === null ? '' : `${isNegated ? '! ' : ''}${option} ${printed}`;
}

function printInterfaceOrPrefix(option: string, value: string, family: Family): string | null {
  return option === '-s' || option === '-d' ? printPrefix(value, family) : value;
}

function printOptions({ name, known, options }: Group, family: Family): string[] {
  const complete = new Map([...options, ...defaultOptions(name, options, family)]);
  return Object.keys(known).flatMap((option) => complete.get(option) ?? []);
}

/** What the tools print although nobody wrote it. */
function defaultOptions(
  name: string,
  options: ReadonlyMap<string, string>,
  family: Family,
): [string, string][] {
  const isIpv6 = family === 'ipv6';
  if (name === 'REJECT' && !options.has('--reject-with'))
    return [['--reject-with', `--reject-with icmp${isIpv6 ? '6' : ''}-port-unreachable`]];
  if (name !== 'recent') return [];
  const mask = isIpv6 ? 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' : '255.255.255.255';
  return [
    ['--name', options.get('--name') ?? '--name DEFAULT'],
    ['--mask', options.get('--mask') ?? `--mask ${mask}`],
    ...(options.has('--rdest') ? [] : [['--rsource', '--rsource'] as [string, string]]),
  ];
}

/** An address or prefix as the tools print it after `-s` and `-d`; null for the one that matches everything. */
function printPrefix(text: string, family: Family): string | null {
  const [address = '', mask] = text.split('/');
  const bits = family === 'ipv6' ? 128 : 32;
  if (parseAddress(address)?.family !== family) throw new Error(`host/network \`${text}' not found`);
  const length = mask === undefined ? bits : toPrefixLength(mask);
  if (length === 0) return null;
  const network = (family === 'ipv6' ? ipaddr.IPv6 : ipaddr.IPv4).networkAddressFromCIDR(
    `${address}/${length}`,
  );
  return `${printAddress(network.toString())}/${length}`;
}

/** An address in canonical text; what is none stays as it is. */
function printAddress(text: string): string {
  return parseAddress(text)?.text ?? text;
}

/** A probability as the kernel keeps it, in multiples of 2^-31, and the tools print it. */
function printProbability(text: string): string {
  return (Math.floor(Number(text) * 2 ** 31 + 0.5) / 2 ** 31).toFixed(11);
}

/** A comment, in quotes unless it is a plain word, as xtables_save_string() has it. */
function printComment(text: string): string {
  return /^[\w-]+$/.test(text) ? text : `"${text.replaceAll(/["'\\]/g, String.raw`\$&`)}"`;
}

/** `tcp` for 6 and the like; null for all protocols. */
function printProtocol(text: string): string | null {
  const numberToName: Record<string, string> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'ipv6-icmp' };
  if (text === 'all' || text === '0') return null;
  return numberToName[text] ?? text;
}

/** `0x4000/0x4000`, for any of MARK's ways to say it. */
function printMark(option: string, value: string): string {
  const mark = `0x${Number(value.split('/')[0]).toString(16)}`;
  if (option === '--or-mark') return `${mark}/${mark}`;
  if (option === '--xor-mark') return `${mark}/0x0`;
  return value.includes('/') ? value : `${mark}/0xffffffff`;
}

function toPrefixLength(mask: string): number {
  return mask.includes('.') ? (ipaddr.IPv4.parse(mask).prefixLengthFromSubnetMask() ?? 0) : Number(mask);
}

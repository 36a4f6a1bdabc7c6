import { dirname, resolve } from 'node:path';
import { type FileHandle, readlink, readdir } from 'node:fs/promises';
import { type ReadLimits, readIfThere, refuse } from '../files.ts';

/** Far more than any configuration has, all its files together. */
const maxBytes = 4_194_304;

/** As many files are read at most. */
const maxFiles = 1000;

/** Parts of patterns that are looked for. */
const maxSearches = 10_000;

/** A file that includes itself, directly or not, is left out: keepalived itself does not start then. */
const maxDepth = 32;

/** A configuration with the files that it includes in their places. */
interface WholeConfiguration {
  readonly text: string;
  /** Every file that was read, the one that includes the others first. */
  readonly files: readonly string[];
}

/**
 * Reads a configuration and what it includes, by the rules of keepalived.conf(5): patterns in relation to the folder of the
 * file that has them; what is no ordinary file, or can be executed, is passed over. `id` as in expandConfiguration. A
 * definition in a pattern stays as it is. Null where there is no such file.
 * Rejects as readIfThere does, also for an included file that may not be read, and with the code `too large` for too many.
 */
export async function readWhole(
  root: ForeignRoot,
  path: string,
  id: string,
): Promise<WholeConfiguration | null> {
  const text = await root.read(path);
  if (text === null) return null;
  const reading: Reading = { root, id, files: [path], rest: maxBytes - text.length, searches: 0 };
  return { text: await insertIncluded(reading, text, [path]), files: reading.files };
}

interface Reading {
  readonly root: ForeignRoot;
  readonly id: string;
  readonly files: string[];
  /** How much more may be read. */
  rest: number;
  searches: number;
}

/** `chain` are the files that led here, the one that has this text last. */
async function insertIncluded(reading: Reading, text: string, chain: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    const own = keepForHost(removeComment(line), reading.id);
    const [, pattern] = /^include[rmwba]?\s+(\S.*)$/.exec(own) ?? [];
    if (pattern === undefined) lines.push(line.replaceAll('${_PWD}', () => toFolder(chain)));
    else lines.push(...(await readMatching(reading, pattern, chain)));
  }
  return lines.join('\n');
}

function toFolder(chain: readonly string[]): string {
  return dirname(chain.at(-1) ?? '/');
}

async function readMatching(reading: Reading, pattern: string, chain: readonly string[]): Promise<string[]> {
  const texts: string[] = [];
  for (const one of expandBraces(pattern)) {
    for (const path of await findPaths(reading, one.startsWith('/') ? one : `${toFolder(chain)}/${one}`)) {
      if (chain.includes(path) || chain.length >= maxDepth) continue;
      const text = await readIncluded(reading, path);
      if (text !== null) texts.push(await insertIncluded(reading, text, [...chain, path]));
    }
  }
  return texts;
}

/** The paths that a pattern means, in their order; one without wildcards means itself. */
async function findPaths(reading: Reading, pattern: string): Promise<string[]> {
  let paths = [''];
  for (const part of pattern.split('/').slice(1)) {
    reading.searches += paths.length;
    if (reading.searches > maxSearches) throw refuse('too large');
    paths = (await Promise.all(paths.map((path) => findNames(reading, path, part)))).flat();
  }
  return paths;
}

async function findNames({ root }: Reading, folder: string, part: string): Promise<string[]> {
  if (!/[*?[]/.test(part)) return [`${folder}/${part}`];
  const names = await root.list(folder === '' ? '/' : folder);
  return names.filter((name) => matchesGlob(name, part)).map((name) => `${folder}/${name}`);
}

async function readIncluded(reading: Reading, path: string): Promise<string | null> {
  if (reading.files.length >= maxFiles) throw refuse('too large');
  const text = await reading.root.read(path, { check: refuseProgram }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === notOrdinary) return null;
    throw error;
  });
  if (text === null) return null;
  reading.files.push(path);
  reading.rest -= text.length;
  if (reading.rest < 0) throw refuse('too large');
  return text;
}

/** What readIfThere says of a pipe, a device or a folder. */
const notOrdinary = 'no file';

/** keepalived 2.2.7: "is not a regular non-executable file - skipping". */
async function refuseProgram(file: FileHandle): Promise<void> {
  const { mode } = await file.stat();
  if ((mode & 0o111) !== 0) throw refuse(notOrdinary);
}

/** The whole path of the configuration file that a command line names (keepalived(8)), started in a folder; null where it names none. Pure. */
export function findNamedFile(words: readonly string[], folder: string): string | null {
  const file = readOptions(words).get('use-file');
  return file === undefined ? null : resolve(folder, file);
}

/** The options of keepalived 2.2.7 that take a value. Where it is optional it is attached, and of no interest: null. */
const letterToOption: Readonly<Record<string, string | null>> = {
  ...{ f: 'use-file', i: 'config-id', p: 'pid', r: 'vrrp_pid', c: 'checkers_pid', b: 'bfd_pid', u: 'umask' },
  ...{ S: 'log-facility', A: 'snmp-agent-socket', s: 'namespace', g: null, t: null, M: null },
};

const withValue = [...Object.values(letterToOption).filter((name) => name !== null), 'signum'];

/** Others begin one of these. No further one is a beginning that getopt_long takes: it refuses those of several. */
const withoutValue: readonly string[] = ['vrrp', 'check', 'snmp'];

/**
 * The values of long options by name, as getopt_long(3) reads them: letters in one word, values attached or in the next word, the last one of
 * several. The program is the first word. Pure.
 */
export function readOptions(words: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const rest = words.slice(1);
  for (let word = rest.shift(); word !== undefined && word !== '--'; word = rest.shift()) {
    const option = word.startsWith('--') ? readLong(word) : readLetters(word);
    if (option !== null) found.set(option.name, option.value ?? rest.shift() ?? '');
  }
  return found;
}

/** One that takes a value, which is null where it is the next word. */
type Option = { readonly name: string; readonly value: string | null } | null;

function readLong(word: string): Option {
  const [, long = '', value = null] = /^--([^=]+)(?:=([^]*))?$/.exec(word) ?? [];
  const name = withValue.find((one) => one.startsWith(long));
  return long === '' || name === undefined || withoutValue.includes(long) ? null : { name, value };
}

function readLetters(word: string): Option {
  const [, letter = '', attached = ''] = /^-[^-]*?([fiprcbuSAsgtM])([^]*)$/.exec(word) ?? [];
  const name = letterToOption[letter] ?? null;
  return name === null ? null : { name, value: attached === '' ? null : attached };
}

/** keepalived reads lines of this length (MAXBUF of lib/parser.h), and replaces nothing that would make one longer. */
const maxLineLength = 1024;

/** Definitions that use each other again and again end here, and stay as they are; no real configuration comes near. */
const maxReplacements = 10_000;

/** A line is gone over that often, as what a definition stands for may use others. */
const maxRounds = 32;

/**
 * A configuration without comments and lines for other hosts, and with definitions where they are used: see "Conditional
 * configuration" and "Parameter substitution" in keepalived.conf(5). `id` is that of `--config-id`, else the host's name up
 * to its first dot. Lines of ~SEQ and ~LST stay as they are. Pure and total.
 */
export function expandConfiguration(text: string, id: string): string {
  const state: State = {
    definitions: new Map([['_INSTANCE', id]]),
    waiting: text.split('\n').reverse(),
    unfinished: null,
    replacements: 0,
  };
  const lines: string[] = [];
  while (state.waiting.length > 0) {
    const line = readLine(state, id);
    if (line !== '') lines.push(line);
  }
  return `${lines.join('\n')}\n`;
}

interface State {
  /** By name; what stands for several lines has them all. */
  readonly definitions: Map<string, string>;
  /** The lines to come, the next one last. */
  readonly waiting: string[];
  /** The definition that the next line belongs to. */
  unfinished: string | null;
  /** How many lines had definitions in them, or came from one. */
  replacements: number;
}

/** The next line as keepalived goes by it; empty where there is nothing to go by. */
function readLine(state: State, id: string): string {
  let line = removeComment(state.waiting.pop() ?? '');
  if (state.unfinished !== null) {
    addToDefinition(state, state.unfinished, line);
    return '';
  }
  for (let round = 0; round < maxRounds; round += 1) {
    line = keepForHost(line, id);
    const [, name, value = ''] = /^\$([A-Za-z_]\w*)[ \t]*=[ \t]*(.*)$/.exec(line) ?? [];
    if (name !== undefined) {
      state.definitions.delete(name);
      addToDefinition(state, name, value);
      return '';
    }
    const replaced = replaceNames(state, line);
    if (replaced === null) return line;
    line = removeComment(replaced);
  }
  return line;
}

/** A line for this host, without the `@ID` or `@^ID` that says so; empty for one of another host. Pure. */
function keepForHost(line: string, id: string): string {
  if (!line.startsWith('@')) return line;
  const [, negation, name, rest = ''] = /^@(\^?)(\S*)\s+(.*)$/.exec(line) ?? [];
  return name !== undefined && (name === id) === (negation === '') ? rest : '';
}

/** A line that ends with a backslash continues in the next one. */
function addToDefinition(state: State, name: string, line: string): void {
  const goesOn = line.endsWith('\\');
  const before = state.definitions.get(name);
  const added = goesOn ? line.slice(0, -1).trimEnd() : line;
  const isBlank = before !== undefined && added === '';
  if (!isBlank) state.definitions.set(name, before === undefined ? added : `${before}\n${added}`);
  state.unfinished = goesOn ? name : null;
}

/** The line with every name replaced that is known, and further lines put before those to come; null where none is. */
function replaceNames(state: State, line: string): string | null {
  if (state.replacements > maxReplacements) return null;
  const { definitions, waiting } = state;
  const further: string[] = [];
  const replaced = line.replaceAll(
    /\$(?:\{(\w+)\}|(\w+)(?![^\s,)]))/g,
    (text, braced: string | undefined, bare: string | undefined, at: number) => {
      const value = definitions.get(braced ?? bare ?? '');
      if (value === undefined) return text;
      const [first = '', ...others] = value.split('\n');
      const isLast = at + text.length === line.length;
      // Several lines stand for a name at the end of a line only.
      if (others.length > 0 && !isLast) return text;
      further.push(...others);
      return first;
    },
  );
  if (replaced === line || replaced.length > maxLineLength) return null;
  state.replacements += 1 + further.length;
  waiting.push(...further.reverse());
  return replaced;
}

/** A line of keepalived.conf, with what it has in braces. */
export interface Statement {
  /** At least one, without quotes; the first is the keyword, or within a list the item itself. */
  readonly words: readonly string[];
  /** Null where no brace follows. */
  readonly block: readonly Statement[] | null;
}

/** What begins a block of its own at the top level only, see keepalived.conf(5). */
const topKeywords: ReadonlySet<string> = new Set([
  ...['global_defs', 'vrrp_instance', 'vrrp_sync_group', 'vrrp_script', 'vrrp_track_process'],
  ...['virtual_server', 'virtual_server_group', 'bfd_instance'],
  ...['static_ipaddress', 'static_routes', 'static_rules'],
]);

/**
 * The statements of a text, by the rules of keepalived's own reader (lib/parser.c, 2.2.7). Braces may be anywhere on a
 * line, quotes hide them, comments begin with # or !. Braces that do not balance end as they do there: one too many closes
 * nothing, and a top-level keyword within a block opens none. Pure and total.
 */
export function parseStatements(text: string): Statement[] {
  const top: Draft[] = [];
  const blocks: Draft[][] = [top];
  for (const line of text.split('\n')) {
    for (const piece of splitAtBraces(removeComment(line))) {
      const words = listWords(piece);
      if (piece === '{') openBlock(blocks);
      else if (piece === '}') blocks.splice(Math.max(1, blocks.length - 1));
      else if (words.length > 0) blocks.at(-1)?.push({ words, block: null });
    }
  }
  return top;
}

interface Draft {
  readonly words: readonly string[];
  block: Draft[] | null;
}

function openBlock(blocks: Draft[][]): void {
  const owner = blocks.at(-1)?.at(-1);
  if (owner === undefined || owner.block !== null) return;
  if (blocks.length > 1 && topKeywords.has(owner.words[0] ?? '')) return;
  owner.block = [];
  blocks.push(owner.block);
}

/** A line without its comment and the blanks around it. */
function removeComment(line: string): string {
  const special = /["\\#!]/g;
  let isQuoted = false;
  for (let match = special.exec(line); match !== null; match = special.exec(line)) {
    if (match[0] === '"') isQuoted = !isQuoted;
    else if (match[0] === '\\') special.lastIndex += 1;
    else if (!isQuoted) return line.slice(0, match.index).trim();
  }
  return line.trim();
}

/** Braces, each by itself, and the text between them. */
function splitAtBraces(line: string): string[] {
  const pieces = line.match(/[{}]|(?:"[^"]*"|[^"{}]+|")+/g) ?? [];
  return pieces.map((piece) => piece.trim()).filter((piece) => piece !== '');
}

/** The words of a piece; what is quoted is one. */
function listWords(piece: string): string[] {
  return [...piece.matchAll(/"([^"]*)"|'([^']*)'|[^\s"]+/g)].map(
    ([word, double, single]) => double ?? single ?? word,
  );
}

/** More than this many paths of one pattern in braces are not looked for. */
const maxAlternatives = 256;

/** The patterns that one with braces stands for, `a{b,c}` for `ab` and `ac`, as glob(3) with GLOB_BRACE. Pure. */
export function expandBraces(pattern: string): string[] {
  const done: string[] = [];
  const waiting = [pattern];
  while (waiting.length > 0 && done.length + waiting.length <= maxAlternatives) {
    const next = waiting.pop() ?? '';
    // The innermost first: what is in it has no braces.
    const [whole, inner = ''] = /\{([^{}]*)\}/.exec(next) ?? [];
    const alternatives = inner.split(',').reverse();
    if (whole === undefined) done.push(next);
    else waiting.push(...alternatives.map((one) => next.replace(whole, () => one)));
  }
  return done;
}

/** Whether a file's name is one that a part of a pattern means: `*`, `?`, `[a-z]`, as glob(3). Takes linear time for each star. */
export function matchesGlob(name: string, pattern: string): boolean {
  if (name.startsWith('.') && !pattern.startsWith('.')) return false;
  const tokens = pattern.match(/\[[!^]?\]?[^\]]*\]|\\.|[^]/g) ?? [];
  let [at, token, star, retry] = [0, 0, -1, 0];
  while (at < name.length) {
    if (tokens[token] === '*') [star, retry, token] = [token, at, token + 1];
    else if (matchesOne(name[at] ?? '', tokens[token])) [at, token] = [at + 1, token + 1];
    else if (star >= 0) [retry, at, token] = [retry + 1, retry + 1, star + 1];
    else return false;
  }
  return tokens.slice(token).every((rest) => rest === '*');
}

function matchesOne(character: string, token: string | undefined): boolean {
  if (token === undefined) return false;
  if (token === '?') return true;
  if (token.length === 1) return token === character;
  if (token.startsWith('\\')) return token[1] === character;
  const isNegated = /^\[[!^]/.test(token);
  const ranges = token.slice(isNegated ? 2 : 1, -1).matchAll(/([^])-([^])|([^])/g);
  const isIn = [...ranges].some(([, from, to, one]) =>
    one === undefined ? character >= (from ?? '') && character <= (to ?? '') : character === one,
  );
  return isIn !== isNegated;
}

/** As many as Linux itself follows. */
const maxLinks = 40;

/**
 * The files as a process sees them that may be in a container. A link of its files that leads to a whole path would lead
 * to this process's own: Linux goes by the root of who looks.
 */
export class ForeignRoot {
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
  }

  /** Those of this process. */
  static readonly own = new ForeignRoot('');

  /** Those of another process; of one that may not be asked, this one's. */
  static async of(pid: number): Promise<ForeignRoot> {
    const [own, other] = await Promise.all(
      ['self', pid].map((one) => readlink(`/proc/${one}/ns/mnt`).catch(() => '')),
    );
    const root = await readlink(`/proc/${pid}/root`).catch(() => '/');
    const isOwn = other === '' || (own === other && root === '/');
    return isOwn ? ForeignRoot.own : new ForeignRoot(`/proc/${pid}/root`);
  }

  /** What is in a file; null where there is none. Rejects as readIfThere does. */
  async read(path: string, limits: ReadLimits = {}): Promise<string | null> {
    return await readIfThere(await this.locate(path), limits);
  }

  /** The names in a folder, sorted; none where it is no folder, or may not be read. */
  async list(path: string): Promise<string[]> {
    return (await readdir(await this.locate(path)).catch(() => [])).sort();
  }

  /** The path by which this process reaches what the other one has at a path, links followed. */
  async locate(path: string): Promise<string> {
    if (this.#root === '') return path;
    const waiting = path.split('/').reverse();
    const found: string[] = [];
    let links = 0;
    while (waiting.length > 0) {
      const part = waiting.pop() ?? '';
      if (part === '..') found.pop();
      if (['', '.', '..'].includes(part)) continue;
      const target = await readlink(`${this.#root}/${[...found, part].join('/')}`).catch(() => null);
      if (target === null || links === maxLinks) {
        found.push(part);
        continue;
      }
      links += 1;
      if (target.startsWith('/')) found.length = 0;
      waiting.push(...target.split('/').reverse());
    }
    return `${this.#root}/${found.join('/')}`;
  }
}

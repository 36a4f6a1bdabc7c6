import {
  type SourceReading,
  type Problem,
  type Setting,
  isOptionName,
  formatSource,
  describeOption,
  optionNames,
  splitList,
} from './options.ts';
import { createReadStream } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { LineCounter, parseDocument, isScalar, isMap, type Pair, isSeq, isAlias } from 'yaml';
import { suggest, quoteText } from '../lib/text.ts';

/** Far more than all options with hundreds of endpoints need; a longer file is the wrong file. */
const maxBytes = 64 * 1024;

/** Reads the settings of the file that --config names; a pipe works too. Whatever is wrong is reported as a problem. */
export async function readConfigFile(path: string): Promise<SourceReading> {
  try {
    // `end` is inclusive: one byte more than allowed is read, and no more of an endless one.
    const bytes = await buffer(createReadStream(path, { end: maxBytes }));
    if (bytes.length > maxBytes) return refuse(`--config ${path} is longer than 64 KiB: not a vipnat file`);
    return readDocument(new TextDecoder('utf-8', { fatal: true }).decode(bytes), path);
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    return refuse(`--config ${path} cannot be read: ${reasons[code] ?? message}`);
  }
}

function refuse(problem: string): SourceReading {
  return { settings: new Map(), problems: [{ text: problem, line: 0 }] };
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'no permission',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'it is not UTF-8 text',
};

/**
 * Reads the settings of a YAML document: a map of option names in camelCase. Every problem names its line, and
 * all are reported together, in the order of the lines. Aliases are refused: no option needs one, and few letters of them can
 * stand for millions.
 */
export function readDocument(text: string, path: string): SourceReading {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const faults = [...document.errors, ...document.warnings]
    .map(({ code, message, pos }) => ({
      ...lineCounter.linePos(pos[0]),
      message: plainMessages[code] ?? message.replaceAll(/\s+/g, ' '),
    }))
    .sort((one, other) => one.line - other.line || one.col - other.col);
  if (faults.length > 0) return { settings: new Map(), problems: formatFaults(faults, text, path) };
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) {
    return { settings: new Map(), problems: [] };
  }
  if (!isMap(contents)) return refuse(`${path} holds no map of options. Example: vip: 10.0.0.50:6443`);
  return readPairs(contents.items, {
    path,
    text,
    locate: (node) => lineCounter.linePos(findRange(node)[0]).line,
  });
}

/** One per line of the file: the others of a line follow from its first. */
function formatFaults(
  faults: readonly { readonly line: number; readonly col: number; readonly message: string }[],
  text: string,
  path: string,
): Problem[] {
  const lines = text.split('\n');
  const lineToFirst = new Map(faults.toReversed().map((fault) => [fault.line, fault]));
  return faults
    .filter((fault) => lineToFirst.get(fault.line) === fault)
    .map(({ line, col, message }) => ({
      text:
        explainBrackets(lines[line - 1] ?? '', `${path} line ${line}`) ??
        `${path} line ${line}, column ${col}: ${message}`,
      line,
    }));
}

/** `[fd00::50]:6443` without quotes, which YAML takes for a list and something behind it. No address has 46 characters. */
const bareEndpoint = /(?<=^|[\s,[])\[(?=[0-9a-f.]{0,45}:)[0-9a-f:.]{2,45}\]:\d{1,5}/i;

/** What is wrong where a text has an IPv6 address in brackets without quotes; null where it has none. */
function explainBrackets(text: string, where: string): string | null {
  const [found] = bareEndpoint.exec(text) ?? [];
  if (found === undefined) return null;
  return `${found} needs quotes (from ${where}): in YAML, brackets begin a list. Example: '${found}'`;
}

/** Plain texts for errors that yaml 2.9 words for programmers. */
const plainMessages: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'a second document begins: a file may have only one',
  RESOURCE_EXHAUSTION: 'it is nested too deeply',
};

/** A document's text, how its file is called, and in which of its lines a node is. */
interface Located {
  readonly text: string;
  readonly path: string;
  readonly locate: (node: unknown) => number;
}

function readPairs(pairs: readonly Pair[], source: Located): SourceReading {
  const settings = new Map<string, Setting>();
  const problems: Problem[] = [];
  for (const { key, value } of pairs) {
    const name = isScalar(key) ? String(key.value) : '';
    const node = value ?? key;
    const add = (at: unknown, explain: (from: string) => string) => {
      const line = source.locate(at);
      problems.push({ text: explain(`${source.path} line ${line}`), line });
    };
    const bare = findBareEndpoint(node, source.text);
    if (!isOptionName(name)) {
      const hint = suggest(name, optionNames, `Options: ${optionNames.join(', ')}`);
      add(key, (from) => `${quoteText(name)} is not an option${formatSource(from)}. ${hint}`);
    } else if (isAlias(value) || (isSeq(value) && value.items.some(isAlias))) {
      add(value, (from) => `${name} has an alias${formatSource(from)}. Write the value out`);
    } else if (bare !== undefined) {
      add(bare.node, (from) => explainBrackets(bare.text, from) ?? '');
    } else {
      settings.set(name, readValue(node, describeOption(name).isList === true, source));
    }
  }
  return { settings, problems };
}

/** In a list, YAML takes such an endpoint for a map from a list to a number. */
function findBareEndpoint(node: unknown, text: string): { node: unknown; text: string } | undefined {
  return (isSeq(node) ? node.items : [])
    .filter((item) => !isScalar(item))
    .map((item) => ({ node: item, text: text.slice(...findRange(item)) }))
    .find((item) => bareEndpoint.test(item.text));
}

function readValue(node: unknown, isList: boolean, { path, locate }: Located): Setting {
  const elements = (isSeq(node) ? node.items : [node]).flatMap((item) => {
    const value = readScalar(item);
    const line = locate(item);
    return isList && typeof value === 'string'
      ? splitList(value).map((part) => ({ value: part, line }))
      : [{ value, line }];
  });
  const [first] = elements;
  const isOne = !isSeq(node) && (!isList || typeof first?.value !== 'string');
  const line = (index = 0) => elements[index]?.line ?? locate(node);
  return {
    value: isOne ? first?.value : elements.map(({ value }) => value),
    line,
    from: (index) => `${path} line ${line(index)}`,
  };
}

/** The text as the file has it, so that a number is checked as what was written; null for nothing. */
function readScalar(node: unknown): unknown {
  if (!isScalar(node)) return isSeq(node) ? [] : {};
  if (node.value === null || typeof node.value === 'string') return node.value;
  return node.source ?? JSON.stringify(node.value);
}

/** Where a node begins, and where its value ends, in front of comments. */
function findRange(node: unknown): readonly [start: number, end: number] {
  const { range } = node as { range?: readonly [number, number, number] | null };
  return [range?.[0] ?? 0, range?.[1] ?? 0];
}

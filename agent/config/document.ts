import { isAlias, isMap, isScalar, isSeq, LineCounter, type Pair, parseDocument } from 'yaml';
import { findNearest } from './nearest.ts';
import { describeOption, isOptionName, optionNames } from './options.ts';
import { formatSource, quoteText, type Setting, type SourceReading, splitList } from './setting.ts';

/**
 * Reads the settings of a YAML document: a map of option names in camelCase. Every problem names its line, and
 * all are told at once. Aliases are refused: no option needs one, and few letters of them can stand for millions.
 */
export function readDocument(text: string, path: string): SourceReading {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const faults = [...document.errors, ...document.warnings].map(({ code, message, pos }) => ({
    ...lineCounter.linePos(pos[0]),
    message: plainMessages[code] ?? message.replaceAll(/\s+/g, ' '),
  }));
  if (faults.length > 0) return { settings: new Map(), problems: formatFaults(faults, path) };
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) {
    return { settings: new Map(), problems: [] };
  }
  if (!isMap(contents)) {
    return {
      settings: new Map(),
      problems: [`${path} holds no map of options. Example: vip: 10.0.0.50:6443`],
    };
  }
  return readPairs(contents.items, (node) => `${path} line ${lineCounter.linePos(startOf(node)).line}`);
}

interface Fault {
  readonly line: number;
  readonly col: number;
  readonly message: string;
}

/** One per line of the file: the others of a line follow from its first. */
function formatFaults(faults: readonly Fault[], path: string): string[] {
  const lineToFirst = new Map(faults.toReversed().map((fault) => [fault.line, fault]));
  return faults
    .filter((fault) => lineToFirst.get(fault.line) === fault)
    .map(({ line, col, message }) => `${path} line ${line}, column ${col}: ${message}`);
}

/** Where yaml 2.9 speaks to programmers. */
const plainMessages: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'a second document begins; only one is read',
  RESOURCE_EXHAUSTION: 'it is nested too deeply',
};

type Locate = (node: unknown) => string;

function readPairs(pairs: readonly Pair[], locate: Locate): SourceReading {
  const settings = new Map<string, Setting>();
  const problems: string[] = [];
  for (const { key, value } of pairs) {
    const name = isScalar(key) ? String(key.value) : '';
    if (!isOptionName(name)) {
      problems.push(`${quoteText(name)} is no option${formatSource(locate(key))}. ${suggestKey(name)}`);
    } else if (hasAlias(value)) {
      problems.push(`${name} has an alias${formatSource(locate(value))}. Write the value out`);
    } else {
      settings.set(name, readValue(value ?? key, describeOption(name).isList, locate));
    }
  }
  return { settings, problems };
}

function suggestKey(name: string): string {
  const nearest = findNearest(name, optionNames);
  return nearest === null ? `Options: ${optionNames.join(', ')}` : `Did you mean ${nearest}?`;
}

function hasAlias(node: unknown): boolean {
  return isAlias(node) || (isSeq(node) && node.items.some(isAlias));
}

function readValue(node: unknown, isList: boolean, locate: Locate): Setting {
  const elements = (isSeq(node) ? node.items : [node]).flatMap((item) => {
    const value = readScalar(item);
    const from = locate(item);
    return isList && typeof value === 'string'
      ? splitList(value).map((part) => ({ value: part, from }))
      : [{ value, from }];
  });
  const [first] = elements;
  const isOne = !isSeq(node) && (!isList || typeof first?.value !== 'string');
  return {
    value: isOne ? first?.value : elements.map(({ value }) => value),
    from: (index = 0) => elements[index]?.from ?? locate(node),
  };
}

/** The text as it stands in the file, so that a number is checked as what was written; null for nothing. */
function readScalar(node: unknown): unknown {
  if (!isScalar(node)) return isSeq(node) ? [] : {};
  if (node.value === null || typeof node.value === 'string') return node.value;
  return node.source ?? JSON.stringify(node.value);
}

function startOf(node: unknown): number {
  const { range } = node as { range?: readonly [number, number, number] | null };
  return range?.[0] ?? 0;
}

import { removeComment } from './grammar.ts';

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
export function keepForHost(line: string, id: string): string {
  if (!line.startsWith('@')) return line;
  const [, negation, name, rest = ''] = /^@(\^?)(\S*)\s+(.*)$/.exec(line) ?? [];
  return name !== undefined && (name === id) === (negation === '') ? rest : '';
}

/** A line that ends with a backslash goes on in the next one. */
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

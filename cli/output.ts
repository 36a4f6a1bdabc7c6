import { exitStatuses, toPrintable, toPrintableLine, formatAge, toAscii, wrap } from '../lib/text.ts';
import { writeSync } from 'node:fs';
import { VipnatError, findErrorCode, type ErrorCode } from '../lib/errors.ts';
import { descriptorsExhausted } from '../lib/kernel/tools.ts';
import { systemClock } from '../lib/clock.ts';
import { formatJsonLine } from '../lib/telemetry/log.ts';
import { styleText } from 'node:util';
import type { Environment } from '../config/load.ts';
import { watchStdoutReader } from '../lib/kernel/host.ts';

/**
 * Writes all of a text to standard output before it returns. Not by process.stdout: opening that stream takes a tenth of the
 * time in which `vipnat plan` is done. When the reader went away (`vipnat plan | head`), the process ends with
 * `readerGone` and no message. When the output cannot be written for another reason (a full disk), the process
 * ends with status 1.
 */
export function writeStdout(text: string): void {
  try {
    writeWhole(1, text);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EPIPE') process.exit(exitStatuses.readerGone);
    writeStderr(
      `${formatErrorLine('OUTPUT_NOT_WRITTEN', `standard output cannot be written: ${message}`)}\n`,
    );
    process.exit(exitStatuses.failed);
  }
}

/** Writes all of a text to standard error before it returns. A failure is ignored, as it cannot be reported. */
export function writeStderr(text: string): void {
  try {
    writeWhole(2, text);
  } catch {
    return;
  }
}

function writeWhole(descriptor: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      // A pipe that somebody made non-blocking is full: its reader gets a moment.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
}

/** How an error is printed. */
export interface ErrorForm {
  /** Whether the whole story is asked for: what a tool printed, or the stack of a bug. */
  readonly isDebug: boolean;
  /** Whether standard error is a log of JSON lines. */
  readonly isJson: boolean;
}

/**
 * One line for each line of a VipnatError's message, each with the code: `vipnat: [CODE] message`, or a line of the JSON
 * log. What a tool printed follows only at debug. A lack of file descriptors has its own code, wherever it occurs. Anything
 * else is a bug of vipnat: the line says what to do about it, and its stack follows at debug.
 */
export function formatError(error: unknown, form: ErrorForm): { text: string; exitCode: number } {
  if (isShortage(error)) return formatError(descriptorsExhausted(error.message.replace(/\.+$/, '')), form);
  const { lines, details } = error instanceof VipnatError ? readFailure(error) : readBug(error, form.isDebug);
  const code = findErrorCode(error);
  const exitCode = error instanceof VipnatError ? error.exitCode : exitStatuses.failed;
  const shown = form.isDebug ? details : undefined;
  const text = form.isJson
    ? formatErrorJson(lines, code, shown)
    : joinLines([
        ...lines.map((line) => formatErrorLine(code, line)),
        ...(shown === undefined ? [] : [shown]),
      ]);
  return { text, exitCode };
}

/** The first line of an error as every command prints it, without a newline: `vipnat: [CODE] message`. */
export function formatErrorLine(code: ErrorCode, message: string): string {
  return `vipnat: [${code}] ${message}`;
}

/** The same as lines for standard error, whoever wrote the texts. */
export function formatProblems(problems: readonly { code: ErrorCode; text: string }[]): string {
  return joinLines(problems.map(({ code, text }) => formatErrorLine(code, toPrintableLine(text))));
}

function readFailure({ message, details }: VipnatError) {
  return { lines: message.split('\n'), details: details && toPrintable(details.trimEnd()) };
}

/** Node says it in words where it reads its packages, by EMFILE and ENFILE elsewhere; both hold these. */
function isShortage(error: unknown): error is Error {
  return (
    error instanceof Error && !(error instanceof VipnatError) && /too many open files/i.test(error.message)
  );
}

function readBug(error: unknown, isDebug: boolean) {
  const { message = String(error), stack = '' } = error as Partial<Error>;
  const line = toPrintableLine(message);
  const request =
    'This is a bug. Please report it, with the output of the same command with --log-level debug';
  return { lines: [isDebug ? line : `${line}. ${request}`], details: toPrintable(stack) };
}

function formatErrorJson(lines: readonly string[], code: ErrorCode, details: string | undefined): string {
  const timestamp = systemClock.date().toISOString();
  const format = (message: string, index: number) => {
    const isLast = index === lines.length - 1;
    const fields = { code, ...(isLast && details !== undefined && { details }) };
    return formatJsonLine({ level: 'error', message, timestamp, fields });
  };
  return joinLines(lines.map(format));
}

/** `1 check`, `2 checks`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** Each with a newline. */
export function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** How long ago something was that the API has the date of. */
export function formatSince(since: string | null, nowMs: number): string {
  const ms = nowMs - Date.parse(since ?? '');
  return Number.isNaN(ms) ? '' : formatAge(Math.max(0, ms));
}

/** A node whose Lease has run out. */
export function describeNoAnswer(lease: { node: string; msSinceRenewal: number | null }): string {
  const { node, msSinceRenewal: ms } = lease;
  return ms === null ? `${node} has said nothing yet` : `${node} has said nothing for ${formatAge(ms)}`;
}

/**
 * Rows below the titles of their columns, each as its lines: what does not fit of the last column is below its beginning. Below a
 * title that begins with `>` are numbers, aligned to the right.
 */
export function layOutTable(
  columns: readonly string[],
  rows: readonly (readonly Part[])[],
  screen: Screen,
  margin = '',
): { readonly titles: string; readonly rows: readonly (readonly string[])[] } {
  const cleaned = rows.map((row) => row.map((part) => cleanPart(part, screen)));
  const titles = columns.map((title) => ({ text: title.replace('>', '') }));
  const last = columns.length - 1;
  const widths = columns.map((_, column) =>
    Math.max(...[titles, ...cleaned].map((row) => row[column]?.text.length ?? 0)),
  );
  const left = margin.length + widths.slice(0, last).reduce((sum, width) => sum + width + 2, 0);
  const format = (row: readonly TonedText[], on: Screen) => {
    const cells = row.slice(0, last).map(({ text, tone }, column) => {
      const gap = ' '.repeat((widths[column] ?? 0) - text.length);
      return columns[column]?.startsWith('>') === true
        ? `${gap}${text}  `
        : `${paint(text, tone, screen)}${gap}  `;
    });
    const { text = '', tone } = row[last] ?? {};
    const [first = '', ...more] = layOutText(' '.repeat(left), text, on);
    const lines = [`${margin}${cells.join('')}${paint(first.slice(left), tone, screen)}`, ...more];
    return lines.map((line) => line.trimEnd());
  };
  const titleLine = format(titles, { ...screen, width: null }).join('');
  return { titles: titleLine, rows: cleaned.map((row) => format(row, screen)) };
}

/** The same as lines, one row after the other. */
export function formatTable(...options: Parameters<typeof layOutTable>): string[] {
  const { titles, rows } = layOutTable(...options);
  return [titles, ...rows.flat()];
}

/** How a state is coloured. The word says the same without colour. */
export type Tone = 'good' | 'doubtful' | 'bad';

const toneToColour = { good: 'green', doubtful: 'yellow', bad: 'red' } as const;

interface TonedText {
  readonly text: string;
  readonly tone?: Tone | undefined;
}

/** A text, with its tone if it has one. */
export type Part = string | TonedText;

function cleanPart(part: Part, screen: Screen): TonedText {
  const { text, tone } = typeof part === 'string' ? { text: part } : part;
  return { text: clean(text, screen), tone };
}

/** A text as one line that this screen can show, whoever wrote it. */
export function clean(text: string, { isUnicode }: Screen): string {
  const line = toPrintableLine(text);
  return isUnicode ? line : toAscii(line);
}

/** A clean text in its tone. */
export function paint(text: string, tone: Tone | undefined, { isColoured }: Screen): string {
  if (!isColoured || tone === undefined || text === '') return text;
  return styleText(toneToColour[tone], text, { validateStream: false });
}

/** Parts behind a head, with a dot between, as lines: a part that does not fit begins the next one below the first part. */
export function layOutParts(head: string, parts: readonly Part[], screen: Screen): string[] {
  const dot = clean(' · ', screen);
  const lines: { text: string; length: number }[] = [{ text: head, length: head.length }];
  for (const [index, part] of parts.entries()) {
    const { text: word, tone } = cleanPart(part, screen);
    const last = lines.at(-1) ?? { text: '', length: 0 };
    const gap = index === 0 ? '' : dot;
    const length = last.length + gap.length + word.length;
    const painted = paint(word, tone, screen);
    if (index > 0 && length > (screen.width ?? Infinity)) {
      lines.push({ text: `${' '.repeat(head.length)}${painted}`, length: head.length + word.length });
    } else {
      lines[lines.length - 1] = { text: `${last.text}${gap}${painted}`, length };
    }
  }
  return lines.map(({ text }) => text);
}

/** Prose behind a head, as lines: what does not fit is below the beginning of the prose. */
export function layOutText(head: string, text: string, screen: Screen): string[] {
  const width = screen.width === null ? null : screen.width - head.length;
  const [first = '', ...more] = wrap(clean(text, screen), width);
  return [`${head}${first}`, ...more.map((line) => `${' '.repeat(head.length)}${line}`)];
}

/** When to colour, the default first: `auto` is on a terminal that can, unless NO_COLOR is set. */
export const colourChoices = ['auto', 'always', 'never'] as const;

/** One of colourChoices. */
export type ColourChoice = (typeof colourChoices)[number];

/** What standard output is. */
export interface Terminal {
  readonly isTerminal: boolean;
  /** How wide it is; null where it does not say. */
  readonly columns: number | null;
}

/** What can be shown to whoever reads standard output. */
export interface Screen {
  /** A terminal that follows escape sequences. */
  readonly isTerminal: boolean;
  /** Columns, 60 to 200; null where nobody says, so nothing but long prose is broken. */
  readonly width: number | null;
  readonly isColoured: boolean;
  /** Whether characters outside ASCII can be read there. */
  readonly isUnicode: boolean;
}

/** A file or a pipe. */
export const plainScreen: Screen = { isTerminal: false, width: null, isColoured: false, isUnicode: true };

/** Where nobody says how wide it is, prose is broken here. */
export const proseWidth = 80;

/** What no screen needs less or more of. */
const leastWidth = 60;
const mostWidth = 200;

/**
 * What can be shown: COLUMNS counts before the terminal's size, and a choice on the command line before NO_COLOR and TERM.
 * Without any locale Unicode is shown: containers have none, and their terminals are of people who do.
 */
export function readScreen(environment: Environment, terminal: Terminal, choice: ColourChoice): Screen {
  const isTerminal = terminal.isTerminal && environment['TERM'] !== 'dumb';
  const columns = readColumns(environment) ?? (terminal.isTerminal ? terminal.columns : null);
  const isAllowed = (environment['NO_COLOR'] ?? '') === '';
  return {
    isTerminal,
    width: columns === null ? null : Math.min(mostWidth, Math.max(leastWidth, columns)),
    isColoured: choice === 'always' || (choice === 'auto' && isTerminal && isAllowed),
    isUnicode: isUnicode(environment),
  };
}

function readColumns({ COLUMNS: text = '' }: Environment): number | null {
  return /^[1-9]\d{0,5}$/.test(text) ? Number(text) : null;
}

/** By the variables that POSIX has for characters, in its order. */
function isUnicode(environment: Environment): boolean {
  const locale = ['LC_ALL', 'LC_CTYPE', 'LANG']
    .map((name) => environment[name] ?? '')
    .find((text) => text !== '');
  return locale === undefined || /utf-?8/i.test(locale);
}

/** What a terminal gets before each screen of --watch. */
const clearScreen = '\u001b[H\u001b[2J';

/**
 * Prints what a command shows, once or again and again, and answers the exit status. With --watch it ends when it is stopped, or when
 * nobody reads its output any more. A screen of null, where nothing could be read, leaves the one before it.
 */
export async function printScreens(
  watchMs: number | null,
  { screen, stdout }: { readonly screen: () => Screen; readonly stdout: (text: string) => void },
  show: () => Promise<{ readonly text: string; readonly isTrouble: boolean } | null>,
): Promise<number> {
  for (;;) {
    const shown = await show();
    const start = watchMs !== null && screen().isTerminal ? clearScreen : '';
    if (shown !== null) stdout(`${start}${shown.text}`);
    if (watchMs === null) return shown?.isTrouble === true ? exitStatuses.found : exitStatuses.done;
    if ((await waitForNext(watchMs)) === 'reader gone') return exitStatuses.readerGone;
  }
}

/** The next screen comes soon enough to find out by itself that nobody reads it. */
const soonMs = 1000;

/** Waits for the next screen of --watch, or until nobody reads standard output any more. */
async function waitForNext(watchMs: number): Promise<'due' | 'reader gone'> {
  return await new Promise((resolve) => {
    const cancelWatch =
      watchMs <= soonMs
        ? () => undefined
        : watchStdoutReader(() => {
            cancelDue();
            resolve('reader gone');
          });
    const cancelDue = systemClock.schedule(watchMs, () => {
      cancelWatch();
      resolve('due');
    });
  });
}

/** A command within prose: wrap does not break it. */
export function keepTogether(command: string): string {
  return command.replaceAll(' ', '\u00a0');
}

/**
 * What help says below the options, for a width: paragraphs are filled, `Exit status:` begins one, and examples, which are
 * to be pasted, stay as they are.
 */
export function wrapEpilogue(text: string, width: number): string {
  const fill = (part: string) => wrap(part.replaceAll('\n', ' '), width).join('\n');
  const paragraphs = text.split('\n\n').map((paragraph) => {
    if (/^\n?Examples?:/.test(paragraph)) return paragraph;
    return paragraph
      .split(/\n(?=Exit status:|See )/)
      .map(fill)
      .join('\n');
  });
  return paragraphs.join('\n\n');
}

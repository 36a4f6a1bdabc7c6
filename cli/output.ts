import { exitStatuses, toPrintable, toPrintableLine, formatAge, toAscii, wrap } from '../lib/text.ts';
import { readFileSync, writeSync } from 'node:fs';
import { VipnatError, findErrorCode, type ErrorCode } from '../lib/errors.ts';
import { descriptorsExhausted } from '../lib/kernel/tools.ts';
import { systemClock, Pause } from '../lib/clock.ts';
import { formatJsonLine } from '../lib/telemetry/log.ts';
import { styleText, stripVTControlCharacters } from 'node:util';
import { isatty } from 'node:tty';
import type { Key } from 'node:readline';
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
function formatErrorLine(code: ErrorCode, message: string): string {
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
 * Rows below the titles of their columns, each as its lines. A row that is too wide for the screen continues below, and so do the titles.
 * What does not fit of the last column is below its beginning. Below a title that begins with `>` are numbers, aligned to the right.
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
  let left = margin.length;
  // What is printed before each cell: what does not fit is on the next line, indented.
  const leads = widths.map((own, column) => {
    const needed = column === last ? Math.min(own, leastProseWidth) : own;
    const isBelow = column > 0 && left + needed > (screen.width ?? Infinity);
    if (isBelow) left = margin.length + 2;
    if (column < last) left += own + 2;
    return isBelow ? `\n${margin}  ` : '';
  });
  const format = (row: readonly TonedText[], on: Screen) => {
    const cells = row.slice(0, last).map(({ text, tone }, column) => {
      const gap = ' '.repeat((widths[column] ?? 0) - text.length);
      return columns[column]?.startsWith('>') === true
        ? `${gap}${text}  `
        : `${paint(text, tone, screen)}${gap}  `;
    });
    const { text = '', tone } = row[last] ?? {};
    const [first = '', ...more] = layOutText(' '.repeat(left), text, on);
    const whole = [...cells, paint(first.slice(left), tone, screen)].map((cell, at) => `${leads[at]}${cell}`);
    const lines = [...`${margin}${whole.join('')}`.split('\n'), ...more].map((line) => line.trimEnd());
    return lines.filter((line, at) => at === 0 || line !== '');
  };
  const titleLine = format(titles, { ...screen, width: null }).join('\n');
  return { titles: titleLine, rows: cleaned.map((row) => format(row, screen)) };
}

/** A narrower last column would break prose into many short lines: it is then on a line of its own. */
const leastProseWidth = 24;

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

/**
 * Parts behind a head, with a dot between, as lines: a part that does not fit begins the next one, below the first part or below a head
 * that takes half of the screen. One that is longer than a line is broken at blanks.
 */
export function layOutParts(head: string, parts: readonly Part[], screen: Screen): string[] {
  const width = screen.width ?? Infinity;
  const isWide = head.length > width / 2;
  const indent = ' '.repeat(isWide ? 2 : head.length);
  const lines: { text: string; length: number }[] = [{ text: head, length: head.length }];
  const pieces = parts.flatMap((part, index) => {
    const { text, tone } = cleanPart(part, screen);
    const gap = index === 0 ? '' : clean(' · ', screen);
    return wrap(text, width - indent.length).map((word, at) => ({ word, tone, gap: at === 0 ? gap : null }));
  });
  for (const { word, tone, gap } of pieces) {
    const last = lines.at(-1) ?? { text: '', length: 0 };
    const length = last.length + (gap ?? '').length + word.length;
    const painted = paint(word, tone, screen);
    if (gap === null || (length > width && (gap !== '' || isWide))) {
      lines.push({ text: `${indent}${painted}`, length: indent.length + word.length });
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
  /** A terminal that follows escape sequences, and may get them. */
  readonly isTerminal: boolean;
  /** Columns, 40 to 200; null where nobody says, so nothing but long prose is broken. */
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
const leastWidth = 40;
const mostWidth = 200;

/**
 * What can be shown: COLUMNS counts before the terminal's size, and a choice on the command line before NO_COLOR and TERM.
 * Without any locale Unicode is shown: containers have none, and their terminals are of people who do.
 */
export function readScreen(environment: Environment, terminal: Terminal, choice: ColourChoice): Screen {
  const { TERM, NO_COLOR = '' } = environment;
  const isTerminal = terminal.isTerminal && TERM !== 'dumb';
  const columns = readColumns(environment) ?? (terminal.isTerminal ? terminal.columns : null);
  return {
    isTerminal,
    width: columns === null ? null : Math.min(mostWidth, Math.max(leastWidth, columns)),
    isColoured: choice === 'always' || (choice === 'auto' && isTerminal && NO_COLOR === ''),
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

interface Shown {
  /** What is printed, or what lays it out for the screen as it is then. */
  readonly text: string | (() => string);
  readonly isTrouble: boolean;
  /** Why nothing could be read, as one line: the text does not count then. */
  readonly problem?: string;
}

/** What --watch shows of a failure, and continues. @throws the error without --watch. */
export function showFailure(watchMs: number | null, error: unknown): Shown {
  if (watchMs === null || !(error instanceof VipnatError)) throw error;
  return { text: '', isTrouble: true, problem: formatErrorLine(error.code, error.message) };
}

type Writers = Readonly<Record<'stdout' | 'stderr', (text: string) => void>>;
type WatchOutput = Writers & { readonly screen: () => Screen };

/**
 * Prints what a command shows, once or again and again, and answers the exit status. With --watch it ends when it is stopped, or when
 * nobody reads its output any more. A terminal has one screen drawn over the other.
 */
export async function printScreens(
  watchMs: number | null,
  output: WatchOutput,
  show: () => Promise<Shown>,
): Promise<number> {
  if (watchMs !== null && output.screen().isTerminal && isInFront())
    return await new WatchedScreen(output).run(watchMs, show);
  if (watchMs !== null) watchStdoutReader(() => process.exit(exitStatuses.readerGone));
  for (;;) {
    const { text, isTrouble, problem } = await show();
    if (problem === undefined) output.stdout(typeof text === 'string' ? text : text());
    else output.stderr(`${problem}\n`);
    if (watchMs === null) return isTrouble ? exitStatuses.found : exitStatuses.done;
    await new Pause(systemClock).wait(watchMs);
  }
}

/**
 * The screens of --watch on a terminal: each is drawn over the one before, in one write that never clears all. Where standard input is a
 * terminal too, keys pause, scroll and end it. However the process ends, the terminal gets back its settings and its cursor.
 */
class WatchedScreen {
  readonly #output: WatchOutput;
  readonly #hasKeys = isatty(0);
  readonly #pause = new Pause(systemClock);
  #shown: Shown = { text: '', isTrouble: true };
  #isOn = false;
  #isPaused = false;
  #top = 0;

  constructor(output: WatchOutput) {
    this.#output = output;
  }

  async run(watchMs: number, show: () => Promise<Shown>): Promise<never> {
    await this.#listen();
    try {
      for (;;) {
        const { problem, ...shown } = await show();
        if (!this.#isPaused)
          this.#shown = problem === undefined ? shown : { ...this.#shown, isTrouble: true, problem };
        (this.#isOn ? this.#draw : this.#enter)();
        do await this.#pause.wait(watchMs);
        while (this.#isPaused);
      }
    } finally {
      this.#leave();
    }
  }

  async #listen(): Promise<void> {
    process.once('exit', this.#leave).on('SIGWINCH', this.#draw).on('SIGCONT', this.#enter);
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(name, () => {
        this.#leave();
        process.kill(process.pid, name);
      });
    }
    if (!this.#hasKeys) return;
    const { emitKeypressEvents } = await import('node:readline');
    emitKeypressEvents(process.stdin);
    // After an error the terminal has gone: the next screen cannot be written either.
    process.stdin.on('keypress', this.#answer).on('error', () => undefined);
  }

  /** What was on the terminal scrolls away. After a stop the settings may be another program's, so they are set again. */
  readonly #enter = (): void => {
    if (!isInFront()) return;
    if (this.#hasKeys) process.stdin.setRawMode(false).setRawMode(true).resume();
    this.#output.stdout(`${'\n'.repeat(readSize().rows - 1)}\u001b[?25l`);
    this.#isOn = true;
    this.#draw();
  };

  readonly #leave = (): void => {
    if (this.#hasKeys && isInFront()) process.stdin.setRawMode(false);
    if (this.#hasKeys) process.stdin.pause();
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#output.stdout('\r\u001b[K\u001b[?25h');
  };

  /** Ctrl-C and Ctrl-Z do what a terminal does, to all processes in front. The kernel stops none that nobody could continue. */
  readonly #answer = (_: unknown, { name = '', sequence }: Key): void => {
    const page = readSize().rows - 1;
    const keyToLines = { up: -1, down: 1, pageup: -page, pagedown: page, home: -Infinity, end: Infinity };
    this.#top += new Map(Object.entries(keyToLines)).get(name) ?? 0;
    if (name === 'q') process.exit(this.#shown.isTrouble ? exitStatuses.found : exitStatuses.done);
    if (sequence === '\u0003') process.kill(0, 'SIGINT');
    if (name === 'space') this.#isPaused = !this.#isPaused;
    if (name === 'space') this.#pause.wake();
    if (sequence === '\u001a') this.#stop();
    this.#draw();
  };

  #stop(): void {
    this.#isPaused = false;
    this.#leave();
    process.kill(0, 'SIGTSTP');
  }

  readonly #draw = (): void => {
    if (!this.#isOn) return;
    const { columns, rows } = readSize();
    const screen = { ...this.#output.screen(), width: columns };
    const { text, problem } = this.#shown;
    const lines = [
      ...(problem === undefined ? [] : layOutParts('', [{ text: problem, tone: 'bad' }], screen)),
      ...(typeof text === 'string' ? text : text()).trimEnd().split('\n'),
    ].flatMap((line) => cutLine(line, columns));
    const most = lines.length - rows + 1;
    this.#top = Math.max(0, Math.min(this.#top, most));
    const footer: Part[] = [
      ...(this.#isPaused ? [{ text: 'paused', tone: 'doubtful' } as const] : []),
      ...(most > 0 ? [`${this.#top} lines above, ${most - this.#top} below`] : []),
      ...(this.#hasKeys ? [`space ${this.#isPaused ? 'goes on' : 'pauses'}`, 'q ends'] : ['Ctrl-C ends']),
    ];
    const visible = lines.slice(this.#top, this.#top + rows - 1);
    const drawn = [...visible, ...layOutParts('', footer, screen).slice(0, 1)].map((line) =>
      stripVTControlCharacters(line).length < columns ? `${line}\u001b[K` : line,
    );
    // Lines do not wrap by themselves meanwhile: a character may be wider than a column.
    this.#output.stdout(`\u001b[?7l\u001b[H${drawn.join('\r\n')}\u001b[J\u001b[?7h`);
  };
}

/** Whether no shell has put this process into the background, where the terminal's settings are another's. Only Linux says it. */
function isInFront(): boolean {
  if (process.platform !== 'linux') return true;
  // After the name, see proc_pid_stat(5).
  const fields = readFileSync('/proc/self/stat', 'latin1').replace(/.*\) /s, '').split(' ');
  return fields[5] === '-1' || fields[5] === fields[2];
}

/** A terminal that does not say its size is taken for one of 80 columns and 24 rows. */
function readSize(): { readonly columns: number; readonly rows: number } {
  const [columns, rows] = process.stdout.getWindowSize();
  return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}

/** A line in pieces of so many characters; colours do not count. */
function cutLine(line: string, columns: number): string[] {
  const colours = '(?:\u001b\\[\\d+m)*';
  const piece = new RegExp(`(?:${colours}[^\u001b]){1,${columns}}${colours}`, 'gu');
  return line.match(piece) ?? [''];
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

import { mkdirSync, readdirSync, rmSync, writeFileSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type Collector } from './evidence.ts';

const intervalMs = 100;

/** How long the process that the tests run in got no turn, measured by a timer that comes late then. */
class Standstill {
  #last = performance.now();
  #longestMs = 0;
  #longestOfTestMs = 0;
  readonly #timer = setInterval(() => {
    this.#sync();
  }, intervalMs).unref();

  beginTest(): void {
    this.#sync();
    this.#longestOfTestMs = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Since the test began, and since the file did; until now, should it still last. */
  measure(): { ofTestMs: number; ofFileMs: number } {
    this.#sync();
    return { ofTestMs: Math.round(this.#longestOfTestMs), ofFileMs: Math.round(this.#longestMs) };
  }

  #sync(): void {
    const now = performance.now();
    const lateMs = now - this.#last - intervalMs;
    this.#last = now;
    this.#longestMs = Math.max(this.#longestMs, lateMs);
    this.#longestOfTestMs = Math.max(this.#longestOfTestMs, lateMs);
  }
}

/** What tells a busy machine from a fault: how much else there was to do, and how long these tests got no turn. */
function describeMachine(standstill: Standstill): string {
  const { ofTestMs, ofFileMs } = standstill.measure();
  const pressures = ['cpu', 'memory', 'io'].map((kind) => `${kind} ${read(`/proc/pressure/${kind}`)}`);
  const available = /MemAvailable:.*/.exec(read('/proc/meminfo'))?.[0] ?? '';
  return [
    `at ${new Date().toISOString()}`,
    `longest standstill of these tests: ${ofTestMs} ms in this test, ${ofFileMs} ms since the file began`,
    `load ${read('/proc/loadavg')}`,
    ...pressures,
    available,
    '',
  ].join('\n');
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    return String(error);
  }
}

/** Where the evidence of a test file goes, and how much of it there may be. */
interface EvidencePlace {
  readonly folder: string;
  /** Whether nobody else removes what an earlier run has left there. */
  readonly isOwn: boolean;
  readonly limitMs: number;
}

/** The part of jest-circus's events that matters here. */
interface CircusEvent {
  readonly name: string;
  readonly error?: unknown;
  readonly test?: Block;
  readonly describeBlock?: Block;
  readonly hook?: { readonly type: string };
}

interface Block {
  readonly name: string;
  readonly parent?: Block;
}

/** One after another says less and less; a file whose world is broken fails with each of its tests. */
const mostFailures = 10;

/** What nobody reads to its beginning. */
const mostBytes = 1_000_000;

/**
 * Writes down how everything was when a test or a hook failed, before other hooks remove it: jest-circus waits for the
 * answer to an event. Whatever goes wrong in it is written down too, and changes no verdict.
 */
export class EvidenceKeeper {
  readonly collectors = new Set<Collector>();
  readonly #place: EvidencePlace;
  readonly #standstill = new Standstill();
  #failures = 0;

  constructor(place: EvidencePlace) {
    this.#place = place;
  }

  async onEvent({ name, test, describeBlock, hook, error }: CircusEvent): Promise<void> {
    if (name === 'test_start') this.#standstill.beginTest();
    if (name !== 'test_fn_failure' && name !== 'hook_failure') return;
    const titles = [...listTitles(test ?? describeBlock), ...(hook === undefined ? [] : [hook.type])];
    try {
      await this.#keep(titles, error);
    } catch (problem) {
      process.stderr.write(`no evidence of ${titles.join(' › ')}: ${describeError(problem)}\n`);
    }
  }

  close(): void {
    this.#standstill.stop();
  }

  async #keep(titles: readonly string[], error: unknown): Promise<void> {
    this.#failures += 1;
    if (this.#failures > mostFailures) return;
    const { folder, isOwn } = this.#place;
    if (isOwn && this.#failures === 1) rmSync(folder, { recursive: true, force: true });
    const own = makeFolder(folder, titles.at(-1) ?? '');
    write(join(own, 'failure.txt'), `${titles.join(' › ')}\n\n${describeError(error)}\n`);
    write(join(own, 'machine.txt'), describeMachine(this.#standstill));
    await Promise.all(
      [...this.collectors].map(async (collector, index) => {
        const file = `${String(index + 1).padStart(2, '0')}-${shorten(collector.name)}.txt`;
        write(join(own, file), await this.#ask(collector));
      }),
    );
    process.stderr.write(`evidence of ${titles.join(' › ')}: ${own}\n`);
  }

  async #ask(collector: Collector): Promise<string> {
    const { limitMs } = this.#place;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<string>((resolve) => {
      timer = setTimeout(resolve, limitMs, `nothing came within ${limitMs} ms\n`);
    });
    try {
      return await Promise.race([collector.collect(), limit]);
    } catch (error) {
      return `${describeError(error)}\n`;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** From the outside in, without Jest's own block around them all. */
function listTitles(block: Block | undefined): string[] {
  if (block?.parent === undefined) return [];
  return [...listTitles(block.parent), block.name];
}

/** Files of the same name share a folder, and so do the attempts of one. */
function makeFolder(folder: string, title: string): string {
  mkdirSync(folder, { recursive: true });
  for (let number = readdirSync(folder).length + 1; ; number += 1) {
    const own = join(folder, `${number}-${shorten(title)}`);
    try {
      mkdirSync(own);
      return own;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

function shorten(title: string): string {
  const words = title.replaceAll(/[^A-Za-z0-9.]+/g, '-').replaceAll(/^-|-$/g, '');
  return words.slice(0, 60);
}

function write(path: string, text: string): void {
  const bytes = Buffer.from(text);
  writeFileSync(path, bytes.subarray(Math.max(0, bytes.length - mostBytes)));
}

/** Also of errors of the tests' own realm, which are no `Error` here. */
function describeError(error: unknown): string {
  const { stack, cause } = (error ?? {}) as { stack?: unknown; cause?: unknown };
  const text = stripVTControlCharacters(typeof stack === 'string' ? stack : String(error));
  return cause === undefined ? text : `${text}\ncaused by ${describeError(cause)}`;
}

/** The place for a test file of a part. */
export function locateEvidence(root: string, part: string, testFile: string): string {
  return join(root, part, basename(testFile));
}

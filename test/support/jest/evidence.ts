import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';

/** Something that can tell how it is, should a test fail. */
export interface Collector {
  readonly name: string;
  collect(): string | Promise<string>;
}

/** Under Jest: what the environment asks when a test fails, see test/support/jest/evidence-keeper.ts. */
const registry = (globalThis as { evidence?: Set<Collector> }).evidence;

/** A log's end says what happened. */
const longestOutput = 500_000;

/**
 * Has a failing test ask for something before its hooks remove it. Answers how to take it back. Outside of Jest it does
 * nothing.
 */
export function keepEvidence(name: string, collect: Collector['collect']): () => void {
  const collector = { name, collect };
  registry?.add(collector);
  return () => {
    registry?.delete(collector);
  };
}

const heard = new WeakSet<ChildProcess>();

/** Of processes that ended, the latest ones say something about what comes after them. */
const mostEnded = 20;
const ended: (() => void)[] = [];

/** The same for what a process prints, and how it ended. What is registered already stays as it is. */
export function keepOutput(name: string, child: ChildProcess): void {
  if (registry === undefined || heard.has(child)) return;
  heard.add(child);
  const [output, errors] = [listen(child.stdout), listen(child.stderr)];
  const takeBack = keepEvidence(name, () => {
    const state = child.exitCode ?? child.signalCode ?? 'running';
    const title = `${child.spawnargs.join(' ')}\npid ${child.pid ?? 'none'}: ${state}`;
    return `${title}\n\n# standard output\n${output()}\n\n# standard error\n${errors()}\n`;
  });
  child.once('exit', () => {
    if (ended.push(takeBack) > mostEnded) ended.shift()?.();
  });
}

/** Hears what comes without reading it: a listener of `data` would take it from a reader that comes later. */
function listen(stream: Readable | null): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  if (stream !== null) {
    const push = stream.push.bind(stream);
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (Buffer.isBuffer(chunk)) length += chunks[chunks.push(chunk) - 1]?.length ?? 0;
      while (length > longestOutput) length -= chunks.shift()?.length ?? length;
      return push(chunk, encoding);
    };
  }
  return () => Buffer.concat(chunks).toString();
}

import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Stage } from './stage.ts';
import { recordHello } from '../../../test/support/network/hello.ts';
import { outsider, vips } from '../../../test/support/network/layout.ts';
import { type Slice, sliceMs } from './slice.ts';

const program = fileURLToPath(new URL('client.ts', import.meta.url));

/** New connections each second, of each client. */
export const perSecond = 200;

/** A client has started by then. */
const startMs = 2000;

/** Clients outside the cluster that open new connections to ports of the VIP all the time, and what became of them. */
export class Load {
  readonly #startedAt: number;
  readonly #children: readonly ChildProcess[];
  readonly #results: readonly ((index: number) => Promise<Slice>)[];

  private constructor(children: readonly ChildProcess[], startedAt: number) {
    this.#startedAt = startedAt;
    this.#children = children;
    this.#results = children.map(readSlices);
  }

  /** A client for each port, all with the same slices of time. */
  static async start(stage: Stage, ports: readonly number[]): Promise<Load> {
    const hello = stage.isReal ? [await recordHello()] : [];
    const startAt = Date.now() + startMs;
    const words = (port: number) => [vips.ipv4, port, perSecond, startAt, ...hello].map(String);
    const children = ports.map((port) =>
      stage.spawn(outsider.name, [process.execPath, program, ...words(port)]),
    );
    return new Load(children, startAt);
  }

  /** Waits until a slice begins that is at least one after the present one; answers its number. */
  async nextSlice(): Promise<number> {
    const index = Math.max(1, Math.ceil((Date.now() - this.#startedAt) / sliceMs) + 1);
    await this.waitFor(index);
    return index;
  }

  /** Waits until a slice begins. */
  async waitFor(index: number): Promise<void> {
    await sleep(Math.max(0, this.#startedAt + index * sliceMs - Date.now()));
  }

  /** What became of a slice, of each client in the order of their ports; it waits until all its connections have ended. */
  async readSlice(index: number): Promise<Slice[]> {
    return await Promise.all(this.#results.map((read) => read(index)));
  }

  /** Ends the clients. */
  stop(): void {
    for (const child of this.#children) child.stdin?.end();
  }
}

/** Answers what reads a client's slices, which print themselves in the order of their ends. */
function readSlices(child: ChildProcess): (index: number) => Promise<Slice> {
  const indexToSlice = new Map<number, PromiseWithResolvers<Slice>>();
  const find = (index: number) => {
    const found = indexToSlice.get(index) ?? Promise.withResolvers<Slice>();
    indexToSlice.set(index, found);
    return found;
  };
  if (child.stdout === null) throw new Error('a client needs its standard output');
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => undefined);
  createInterface({ input: child.stdout })
    .on('line', (line) => {
      const slice = JSON.parse(line) as Slice;
      find(slice.index).resolve(slice);
    })
    .on('close', () => {
      ended.reject(new Error('the client of the VIP ended'));
    });
  child.stderr?.pipe(process.stderr);
  return (index) => Promise.race([find(index).promise, ended.promise]);
}

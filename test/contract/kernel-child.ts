/**
 * The real kernel of the network namespace this process runs in, for a test in another one: requests come as JSON
 * lines on standard input, answers and triggers go as JSON lines to standard output. Ends with its input.
 */
import type { Kernel, Watch } from '../../lib/kernel/port.ts';
import { createKernel } from '../../lib/kernel/kernel.ts';
import { createInterface } from 'node:readline';
import { VipnatError } from '../../lib/errors.ts';

/** What a kernel answers once: all but a watch. */
export type AskedMethod = Exclude<keyof Kernel, 'watch'>;

/** What the test asks. */
export interface ChildRequest {
  readonly id: number;
  readonly method: AskedMethod | 'watch' | 'hurry' | 'close';
  readonly arguments: readonly unknown[];
}

/** What the child says: an answer to a request, or something that came by itself. JSON has no Map: it comes as its entries. */
export type ChildMessage =
  | { readonly id: number; readonly result?: unknown; readonly entries?: readonly [unknown, unknown][] }
  | { readonly id: number; readonly code: string; readonly message: string }
  | { readonly trigger: string }
  | { readonly problem: string };

/** No measurement: a busy machine has time. */
const patientMs = 60_000;

/** Short enough to wait for a tool that hangs. */
const hastyMs = 3000;

let kernel = create(patientMs);

function create(limitMs: number): Kernel {
  return createKernel({
    readLimitMs: limitMs,
    writeLimitMs: limitMs,
    onProblem: ({ code }) => {
      say({ problem: code });
    },
  });
}

const watches: Watch[] = [];

for await (const line of createInterface({ input: process.stdin })) {
  void answer(JSON.parse(line) as ChildRequest);
}
await closeAll();

async function answer({ id, ...request }: ChildRequest): Promise<void> {
  try {
    const result = await handle(request);
    say(result instanceof Map ? { id, entries: [...result] } : { id, result });
  } catch (error) {
    const { code, message } = error as VipnatError;
    say({ id, code: error instanceof VipnatError ? code : 'NO_VIPNAT_ERROR', message });
  }
}

async function handle({ method, arguments: words }: Omit<ChildRequest, 'id'>): Promise<unknown> {
  if (method === 'watch') await startWatch().ready;
  else if (method === 'hurry') kernel = create(hastyMs);
  else if (method === 'close') await closeAll();
  else return await (kernel[method] as (...words: readonly unknown[]) => Promise<unknown>)(...words);
  return null;
}

function startWatch(): Watch {
  const watch = kernel.watch((trigger) => {
    say({ trigger });
  });
  watches.push(watch);
  return watch;
}

async function closeAll(): Promise<void> {
  await Promise.all([...watches.map((watch) => watch.stop()), kernel.keepReady([])]);
}

function say(message: ChildMessage): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/**
 * The real kernel of the network namespace this process runs in, for a test in another one: requests come as JSON
 * lines on standard input, answers and triggers go as JSON lines to standard output. Ends with its input.
 */
import type { Kernel, Watch, WritePlace, FlowSelection, SourceRoute } from '../../lib/kernel/port.ts';
import { createKernel } from '../../lib/kernel/kernel.ts';
import type { Endpoint, Family } from '../../lib/net.ts';
import { createInterface } from 'node:readline';
import { VipnatError } from '../../lib/errors.ts';

/** What the test asks. */
export interface ChildRequest {
  readonly id: number;
  readonly method:
    | 'read'
    | 'apply'
    | 'keepReady'
    | 'resetFlows'
    | 'countFlows'
    | 'listForwardChains'
    | 'enableForwarding'
    | 'readLocalRoutes'
    | 'addSourceRoute'
    | 'removeSourceRoute'
    | 'abortOwnConnections'
    | 'watch'
    | 'hurry'
    | 'close';
  readonly argument?: unknown;
}

/** What the child says: an answer to a request, or something that came by itself. */
export type ChildMessage =
  | { readonly id: number; readonly result?: unknown }
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

type Method = (argument: unknown) => Promise<unknown>;

/** JSON has no Map. */
const methods: Readonly<Record<ChildRequest['method'], Method>> = {
  read: (query) => kernel.read(query as Parameters<Kernel['read']>[0]),
  apply: (transaction) => kernel.apply(transaction as Parameters<Kernel['apply']>[0]),
  keepReady: (places) => kernel.keepReady(places as WritePlace[]),
  resetFlows: (selection) => kernel.resetFlows(selection as FlowSelection),
  countFlows: async (vip) => [...(await kernel.countFlows(vip as Endpoint))],
  listForwardChains: () => kernel.listForwardChains(),
  enableForwarding: (family) => kernel.enableForwarding(family as Family),
  readLocalRoutes: () => kernel.readLocalRoutes(),
  addSourceRoute: (route) => kernel.addSourceRoute(route as SourceRoute),
  removeSourceRoute: (route) => kernel.removeSourceRoute(route as SourceRoute),
  abortOwnConnections: (vip) => kernel.abortOwnConnections(vip as Endpoint),
  watch: () => startWatch().ready,
  hurry: () => {
    kernel = create(hastyMs);
    return Promise.resolve();
  },
  close: () => closeAll(),
};

for await (const line of createInterface({ input: process.stdin })) {
  void answer(JSON.parse(line) as ChildRequest);
}
await closeAll();

async function answer({ id, method, argument }: ChildRequest): Promise<void> {
  try {
    say({ id, result: await handle(method, argument) });
  } catch (error) {
    const { code, message } = error as VipnatError;
    say({ id, code: error instanceof VipnatError ? code : 'NO_VIPNAT_ERROR', message });
  }
}

async function handle(method: ChildRequest['method'], argument: unknown): Promise<unknown> {
  return (await methods[method](argument)) ?? null;
}

function startWatch(): Watch {
  const watch = kernel.watch((trigger) => {
    say({ trigger });
  });
  watches.push(watch);
  return watch;
}

async function closeAll(): Promise<void> {
  await Promise.all([...watches.map((watch) => watch.close()), kernel.keepReady([])]);
}

function say(message: ChildMessage): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

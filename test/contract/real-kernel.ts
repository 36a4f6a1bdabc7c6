import type { Kernel, Trigger } from '../../lib/kernel/port.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { AskedMethod, ChildMessage, ChildRequest } from './kernel-child.ts';
import { VipnatError, type ErrorCode } from '../../lib/errors.ts';

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The kernel of kernel-child.ts, as if it were here. */
export interface RealKernel extends Kernel {
  ping(): Promise<unknown>;
  /** From now on no tool has long. */
  hurry(): Promise<unknown>;
}

const askedMethods: Readonly<Record<AskedMethod, true>> = {
  ...{ read: true, apply: true, keepReady: true, resetFlows: true, countFlows: true },
  ...{ listForwardChains: true, enableForwarding: true, readLocalRoutes: true },
  ...{ addSourceRoute: true, removeSourceRoute: true, abortOwnConnections: true },
};

/** The command of a process of kernel-child.ts. */
export const childCommand: readonly [program: string, script: string] = [
  process.execPath,
  fileURLToPath(new URL('kernel-child.ts', import.meta.url)),
];

/** Starts a child by a command that ends with that one. */
export function startChild([program = '', ...words]: readonly string[]): ChildProcess {
  return spawn(program, words, { stdio: ['pipe', 'pipe', 'inherit'] });
}

/** Speaks with a child. */
export function createRealKernel(child: ChildProcess): RealKernel {
  const idToWaiting = new Map<number, Waiting>();
  let lastId = 0;
  let onTrigger: (trigger: Trigger) => void = () => undefined;
  if (child.stdout === null) throw new Error('the child has no standard output');
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line) as ChildMessage;
    if ('trigger' in message) onTrigger(message.trigger as Trigger);
    if (!('id' in message)) return;
    const waiting = idToWaiting.get(message.id);
    idToWaiting.delete(message.id);
    if ('code' in message) waiting?.reject(new VipnatError(message.code as ErrorCode, message.message));
    else waiting?.resolve(message.entries === undefined ? message.result : new Map(message.entries));
  });
  child.on('exit', () => {
    for (const { reject } of idToWaiting.values()) reject(new Error('the child ended'));
  });

  async function ask(method: ChildRequest['method'], ...words: readonly unknown[]): Promise<unknown> {
    lastId += 1;
    const request: ChildRequest = { id: lastId, method, arguments: words };
    return await new Promise((resolve, reject) => {
      idToWaiting.set(request.id, { resolve, reject });
      child.stdin?.write(`${JSON.stringify(request)}\n`);
    });
  }

  const asked = Object.keys(askedMethods).map((method) => [method, ask.bind(null, method as AskedMethod)]);
  return {
    ...(Object.fromEntries(asked) as Pick<Kernel, AskedMethod>),
    watch: (callBack) => {
      onTrigger = callBack;
      return {
        ready: ask('watch').then(() => undefined),
        stop: () => ask('close').then(() => undefined),
      };
    },
    ping: () => ask('close'),
    hurry: () => ask('hurry'),
  };
}

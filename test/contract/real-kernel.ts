import type {
  Kernel,
  Trigger,
  KernelQuery,
  KernelReading,
  Transaction,
  WritePlace,
  FlowSelection,
  LocalRoutes,
  SourceRoute,
  ForwardChain,
  Watch,
} from '../../lib/kernel/port.ts';
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { ChildMessage, ChildRequest } from './kernel-child.ts';
import type { Endpoint, Family } from '../../lib/net.ts';
import { VipnatError, type ErrorCode } from '../../lib/errors.ts';

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The kernel of kernel-child.ts, as if it were here. */
export class RealKernel implements Kernel {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #onTrigger: (trigger: Trigger) => void = () => undefined;

  constructor(child: ChildProcess) {
    this.#child = child;
    if (child.stdout === null) throw new Error('the child has no standard output');
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.#hear(JSON.parse(line) as ChildMessage);
    });
    child.on('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the child ended'));
    });
  }

  /** Resolves once the child answers. */
  async ping(): Promise<void> {
    await this.#ask('close');
  }

  async read(query: KernelQuery): Promise<KernelReading> {
    return (await this.#ask('read', query)) as KernelReading;
  }

  async apply(transaction: Transaction): Promise<void> {
    await this.#ask('apply', transaction);
  }

  async keepReady(places: readonly WritePlace[]): Promise<void> {
    await this.#ask('keepReady', places);
  }

  async resetFlows(selection: FlowSelection): Promise<number> {
    return (await this.#ask('resetFlows', selection)) as number;
  }

  async countFlows(vip: Endpoint): Promise<ReadonlyMap<string, number>> {
    return new Map((await this.#ask('countFlows', vip)) as [string, number][]);
  }

  async readLocalRoutes(): Promise<LocalRoutes> {
    return (await this.#ask('readLocalRoutes')) as LocalRoutes;
  }

  async addSourceRoute(route: SourceRoute): Promise<void> {
    await this.#ask('addSourceRoute', route);
  }

  async removeSourceRoute(route: SourceRoute): Promise<void> {
    await this.#ask('removeSourceRoute', route);
  }

  async abortOwnConnections(vip: Endpoint): Promise<number> {
    return (await this.#ask('abortOwnConnections', vip)) as number;
  }

  async listForwardChains(): Promise<readonly ForwardChain[]> {
    return (await this.#ask('listForwardChains')) as readonly ForwardChain[];
  }

  async enableForwarding(family: Family): Promise<void> {
    await this.#ask('enableForwarding', family);
  }

  watch(onTrigger: (trigger: Trigger) => void): Watch {
    this.#onTrigger = onTrigger;
    return {
      ready: this.#ask('watch').then(() => undefined),
      close: async () => {
        await this.#ask('close');
      },
    };
  }

  /** From now on no tool has long. */
  async hurry(): Promise<void> {
    await this.#ask('hurry');
  }

  async #ask(method: ChildRequest['method'], argument?: unknown): Promise<unknown> {
    this.#lastId += 1;
    const request: ChildRequest = { id: this.#lastId, method, argument };
    return await new Promise((resolve, reject) => {
      this.#waiting.set(request.id, { resolve, reject });
      this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
    });
  }

  #hear(message: ChildMessage): void {
    if ('trigger' in message) this.#onTrigger(message.trigger as Trigger);
    if (!('id' in message)) return;
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ('code' in message) waiting?.reject(new VipnatError(message.code as ErrorCode, message.message));
    else waiting?.resolve(message.result);
  }
}

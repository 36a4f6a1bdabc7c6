import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { apiserverPort } from './layout.ts';
import type { Namespaces } from './namespaces.ts';
import { tcpServerCommand } from './pod-servers.ts';

/** How an apiserver answers: as it should, late, or everything with 500 as without etcd. */
type ApiserverManner = 'well' | 'slow' | 'failing';

/** One master's small apiserver (apiserver.ts), which can be ended, started again and made ill. */
export class ApiserverProcess {
  readonly #namespaces: Namespaces;
  readonly #command: readonly string[];
  readonly #namespace: string;
  #child: ChildProcess | null = null;

  constructor(
    namespaces: Namespaces,
    place: { readonly name: string; readonly namespace: string },
    pair: { readonly certificate: string; readonly key: string },
  ) {
    this.#namespaces = namespaces;
    this.#namespace = place.namespace;
    this.#command = tcpServerCommand(place.name, apiserverPort, pair);
  }

  /** Starts it, unless it lives, and waits until it listens. */
  async start(): Promise<void> {
    if (this.#child !== null) return;
    const child = this.#namespaces.start(this.#namespace, this.#command);
    this.#child = child;
    child.stderr?.pipe(process.stderr);
    if (child.stdout !== null) await once(child.stdout, 'data');
  }

  /** Ends it by SIGKILL, and waits for that. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    this.#child = null;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Stops its process: the kernel goes on accepting connections for it. */
  freeze(): void {
    this.#child?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child?.kill('SIGCONT');
  }

  answer(manner: ApiserverManner): void {
    this.#child?.stdin?.write(`${manner}\n`);
  }
}

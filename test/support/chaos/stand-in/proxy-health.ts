import { fileURLToPath } from 'node:url';
import type { Host } from './host.ts';
import type { ChildProcess } from 'node:child_process';
import type { Proxy } from './truth.ts';
import { once } from 'node:events';

const program = fileURLToPath(new URL('../../kube-proxy/answers.ts', import.meta.url));

/** What a host's kube-proxy says of its mode; nothing where there is none. */
export class ProxyHealth {
  readonly #host: Host;
  #child: ChildProcess | null = null;

  constructor(host: Host) {
    this.#host = host;
  }

  /** The kube-proxy of this mode takes the place of the one before. */
  async say(mode: Proxy['mode']): Promise<void> {
    if (this.#child !== null) {
      const ended = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await ended;
      this.#child = null;
    }
    if (mode === 'none') return;
    const child = this.#host.start([process.execPath, program, mode, '200']);
    this.#child = child;
    if (child.stdout !== null) await once(child.stdout, 'data');
  }
}

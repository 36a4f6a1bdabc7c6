import { WaitedTooLong } from '../../support/jest/waiting.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { KillingProxy } from './killing-proxy.ts';
import { namespace, type ServicesWorld } from './services-world.ts';
import { type Process } from './single-apiserver.ts';

const lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/vipnat-controller`;

/** Controllers of which each is killed (SIGKILL) once the apiserver has done its first write, before the answer arrives. */
export class ShortLives {
  /** The last write of each life: `METHOD PATH`. */
  readonly writes: string[] = [];
  readonly #world: ServicesWorld;
  #proxy: KillingProxy | null = null;
  #current: Process | null = null;
  #isStopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(world: ServicesWorld) {
    this.#world = world;
  }

  /** Starts one life after the other, until `stop`. */
  async start(): Promise<void> {
    this.#proxy = await KillingProxy.start(this.#world.api, (what) => {
      this.writes.push(what);
      return this.#current?.kill('SIGKILL') === true;
    });
    const kubeconfig = this.#world.api.writeKubeconfig('killed', this.#world.token, this.#proxy.port);
    this.#running = this.#live(kubeconfig);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#current?.kill('SIGKILL');
    await this.#running;
    await this.#proxy?.stop();
  }

  /** Waits until something is so, with the lives that this takes. */
  async until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    await waitFor(isSo, limitMs).catch(() => {
      throw new WaitedTooLong(
        `never came true: ${what}\n${this.writes.join('\n')}\n${this.#world.readLogs()}`,
      );
    });
  }

  async #live(kubeconfig: string): Promise<void> {
    while (!this.#isStopped) {
      this.#current = this.#world.startController('killed', { kubeconfig });
      await this.#current;
      // The next one need not wait until the Lease is over: nothing is gained by waiting 15 s each time.
      const object = { spec: { holderIdentity: '' } };
      await this.#world.api.ask({ method: 'PATCH', path: lease, object });
    }
  }
}

/** Some ten lives, on a machine with more to do. */
const limitMs = 120_000;

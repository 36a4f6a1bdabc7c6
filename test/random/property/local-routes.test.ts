import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { fc } from '../../support/random/fc.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { notifyAll } from '../../../agent/agent.ts';
import { LocalClients } from '../../../agent/local-clients.ts';
import { expect, test } from '@jest/globals';
import { forAll } from './for-all.ts';

const vips = ['10.0.0.50', '10.0.0.51'];
const sources = ['10.0.0.11', '10.0.0.12', '192.168.0.1'];
const config = { vips: vips.map((vip) => toEndpoint(`${vip}:6443`)), localClients: 'keep' } as const;

/** What happens to a host. */
const step = fc.oneof(
  fc.record({ kind: fc.constant('toggle' as const), address: fc.constantFrom(...vips, ...sources) }),
  fc.record({ kind: fc.constantFrom('kill' as const, 'stop' as const, 'fail' as const, 'flush' as const) }),
);

/** A host with an agent's part for own connections, which may be killed in the middle of its work. */
class World {
  readonly kernel = new FakeKernel();
  #clients: LocalClients | null = null;

  /** Lets an agent begin, or look again. */
  async look(): Promise<void> {
    this.#clients ??= new LocalClients({ kernel: this.kernel, report: notifyAll([]) }, config);
    this.#clients.synced();
    await new Promise((resolve) => setImmediate(resolve));
  }

  async act(todo: { kind: string; address?: string }): Promise<void> {
    const { kernel } = this;
    if (todo.kind === 'toggle') this.#toggle(todo.address ?? '');
    if (todo.kind === 'fail') kernel.faults.failNext({ tool: 'route', code: 'NETLINK_FAILED' });
    if (todo.kind === 'flush') kernel.sourceRoutes = [];
    if (todo.kind === 'stop') {
      await this.#clients?.stop();
      // A removal that failed is the next agent's: it was told, and this one is gone.
      this.#clients = null;
    }
    if (todo.kind === 'kill') this.#clients = null;
  }

  async #holds(address: string): Promise<boolean> {
    const { addresses } = await this.kernel.readLocalRoutes();
    return addresses.some((one) => one.address === address);
  }

  #toggle(address: string): void {
    const isHere = this.#here.delete(address);
    if (isHere) this.kernel.removeAddress(address);
    else {
      this.#here.add(address);
      const prefixLength = vips.includes(address) ? 32 : 24;
      this.kernel.addAddress({ family: 'ipv4', address, device: 'eth0', prefixLength });
    }
  }

  readonly #here = new Set<string>();

  /** What has to hold once an agent has looked in peace (I16). */
  async assertInvariant(): Promise<void> {
    const { routes } = await this.kernel.readLocalRoutes();
    for (const vip of vips) {
      const [first, ...more] = routes.filter(({ address }) => address === vip);
      const isHeld = await this.#holds(vip);
      const hasSource = sources.some((source) => this.#here.has(source));
      if (!isHeld) expect([first, ...more]).toEqual([undefined]);
      else {
        expect(more.length).toBe(hasSource ? 1 : 0);
        expect(sources.includes(first?.source ?? '') && this.#here.has(first?.source ?? '')).toBe(hasSource);
        expect([first, ...more].at(-1)).toMatchObject({ source: vip, isOwn: false });
      }
    }
  }
}

test('whatever comes, goes, fails or is killed: routes of ours are there with their addresses only, and never alone (I16)', async () => {
  await forAll({}, [fc.array(fc.tuple(step, fc.boolean()), { maxLength: 25 })], async (steps) => {
    const world = new World();
    for (const [todo, isLooked] of steps) {
      await world.act(todo);
      if (isLooked) await world.look();
    }
    // Faults that are left are used up.
    for (let look = 0; look <= steps.length; look += 1) await world.look();
    await world.assertInvariant();
  });
});

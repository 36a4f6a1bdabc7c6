import type { Assessment } from '../../../../agent/decide/decision.ts';
import type { Transaction, LocalRoutes, Kernel } from '../../../../lib/kernel/port.ts';
import type { Observation } from '../../../../agent/observe/observe.ts';
import type { Product } from './product.ts';
import { type World, answerMode, toApiView, toMemoryKey, toHealthView } from './world.ts';
import type { HostPorts } from '../../../../agent/read-host.ts';

/** What a look found, as far as the model goes by it. */
interface Found {
  readonly decisions: Assessment['decisions'];
  readonly transactions: readonly Transaction[];
  readonly memory: Assessment['memory'];
  readonly observation: Observation;
  readonly candidates: Assessment['candidates'];
}

/** All looks of a search: the same one is taken once, and then, for I3, once more. */
export class Looks {
  readonly #product: Product;
  readonly #taken = new Map<string, Found>();
  /** They are large, and the same for all that a kernel can be seen with. */
  readonly #observations = new Map<string, Observation>();

  constructor(product: Product) {
    this.#product = product;
  }

  get count(): number {
    return this.#taken.size;
  }

  /** What a look finds in this world. Throws where the same look finds something else the second time. */
  async look(world: World): Promise<Found> {
    const { memory } = world.process;
    const { kernel, health } = world;
    const key = JSON.stringify([kernel.id, answerMode(world), health, toApiView(world), toMemoryKey(memory)]);
    const known = this.#taken.get(key);
    if (known !== undefined) return known;
    const looked = await this.#product.look(createPorts(world), memory);
    const { decisions, plan, memory: after, candidates } = looked;
    const seenKey = JSON.stringify([kernel.id, answerMode(world), after.api?.clusterIps]);
    const observation = this.#intern(looked.observation, seenKey);
    const found = { decisions, transactions: plan.transactions, memory: after, candidates, observation };
    const again = await this.#product.look(createPorts(world), memory);
    if (toBytes(found) !== toBytes({ ...again, transactions: again.plan.transactions }))
      throw new Error('the same look differs the second time (I3)');
    this.#taken.set(key, found);
    return found;
  }

  #intern(observation: Observation, key: string): Observation {
    const known = this.#observations.get(key) ?? observation;
    this.#observations.set(key, known);
    return known;
  }
}

function toBytes({ decisions, transactions, memory }: Omit<Found, 'observation'>): string {
  return JSON.stringify([decisions, transactions, memory, [...memory.vips]]);
}

/** Rules do not depend on routes, so this world has none: test/random/property/local-routes.test.ts has a world for them. */
const noRoutes: LocalRoutes = { addresses: [], routes: [], usualSource: null };

/** A look of the model reads what the kernel shows in this state, and can do nothing else to it. */
function createPorts(world: World): HostPorts {
  const view = toHealthView(world);
  return {
    kernel: {
      read: () => Promise.resolve(world.kernel.reading),
      readLocalRoutes: () => Promise.resolve(noRoutes),
    } as unknown as Kernel,
    askProxyMode: () => Promise.resolve(answerMode(world)),
    health: { watch: () => view },
    api: { getView: () => toApiView(world) },
  };
}

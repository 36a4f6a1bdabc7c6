/** Clients: new connections on each machine, open ones, and what may become of them. */
import { judgeNew } from './judge-new.ts';
import { type RunningPod } from './kubernetes.ts';
import { type Machine } from './machine.ts';
import { type World } from './world.ts';

export interface Served {
  readonly key: string;
  readonly vip: string;
}

export class Traffic {
  readonly #world: World;
  #turn = 0;
  /** Services and their addresses, to since when they have them. */
  #pairToSinceMs: ReadonlyMap<string, number> = new Map();

  constructor(world: World) {
    this.#world = world;
  }

  /** To be called each 250 ms. */
  look(): void {
    this.#turn += 1;
    this.#noteServices();
    for (const machine of this.#world.machines) {
      if (!machine.isOn) continue;
      this.#endLost(machine);
      if (this.#turn % 4 === 0) this.#connect(machine);
      this.#world.complaints.push(...judgeNew(this.#world, machine));
    }
  }

  /** A pod's process has ended: most of its connections end with it, and some clients never hear of it. */
  endPod(pod: RunningPod): void {
    const { random, machines } = this.#world;
    for (const { kernel } of machines)
      kernel.connections = kernel.connections.filter((one) => one.pod !== pod.uid || random.chance(30));
  }

  listServices(): Served[] {
    const { objects } = this.#world.api;
    return [...objects.list('VirtualIP')].flatMap(([vip, { spec }]) =>
      ((spec?.['services'] ?? []) as readonly { namespace: string; name: string; uid: string }[])
        .filter(
          ({ namespace, name, uid }) =>
            objects.list('Service').get(`${namespace}/${name}`)?.metadata.uid === uid,
        )
        .map(({ namespace, name }) => ({ key: `${namespace}/${name}`, vip })),
    );
  }

  #connect({ kernel }: Machine): void {
    const { random, kubernetes } = this.#world;
    if (!kernel.isAlive) return;
    for (const { key, vip } of this.listServices()) {
      const slots = [...(kernel.readSlots(vip) ?? [])].flatMap(([address, count]) =>
        Array.from({ length: count }, () => address),
      );
      if (slots.length === 0 || kernel.connections.length > 60) continue;
      const address = random.pick(slots);
      const pod = kubernetes.findAt(address);
      const isAnswered = pod?.isAnswering === true && pod.machine.isReachable;
      this.#world.count(isAnswered ? 'connections' : 'connections that failed');
      kernel.connections.push({
        ...{ service: key, vip, address, pod: isAnswered ? pod.uid : null, isBusy: random.chance(60) },
      });
    }
  }

  /** A pod that has another one's address knows nothing of its connections; what was never answered is over after a while. */
  #endLost({ kernel }: Machine): void {
    const { kubernetes, random } = this.#world;
    kernel.connections = kernel.connections.filter(({ pod, address, isBusy }) => {
      if (pod === null) return !random.chance(1);
      const at = kubernetes.findAt(address);
      const isReset = at !== null && at.uid !== pod && at.isAnswering && isBusy;
      return !isReset && !random.chance(1);
    });
  }

  servedSince({ key, vip }: Served): number {
    return this.#pairToSinceMs.get(`${key} ${vip}`) ?? Infinity;
  }

  #noteServices(): void {
    const pairs = this.listServices().map(({ key, vip }) => `${key} ${vip}`);
    this.#pairToSinceMs = new Map(
      pairs.map((pair) => [pair, this.#pairToSinceMs.get(pair) ?? this.#world.clock.now()]),
    );
  }
}

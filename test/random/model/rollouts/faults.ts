/** What fails: machines, processes, the network and the API. Each answers a sentence about it, or null where it could not be done. */
import { type Machine } from './machine.ts';
import { type Act } from './people.ts';
import { endings } from './told-nodes.ts';
import { type World } from './world.ts';

export const faults: Readonly<Record<string, Act>> = {
  'powers a node off': (world) => {
    const machine = world.random.pick(world.machines);
    if (!machine.isOn || world.machines.filter(({ isOn }) => isOn).length < world.machines.length)
      return null;
    machine.powerOff();
    world.kubernetes.powerOff(machine);
    return machine.name;
  },
  'powers a node on': (world) => powerOn(world),
  'cuts a node off': (world) => {
    const machine = world.random.pick(world.machines);
    if (!machine.isOn || !world.machines.every(({ isUp }) => isUp)) return null;
    machine.isReachable = false;
    machine.noteTrouble();
    machine.cut(true);
    return machine.name;
  },
  'connects nodes again': (world) => connectAll(world),
  'cuts a node off from the API': breakLink('isCut'),
  'freezes watches of a node': breakLink('isFrozen'),
  'kills a balancer': (world) => {
    const machine = world.random.pick(world.machines);
    machine.killBalancer();
    if (world.random.chance(50)) machine.startBalancer();
    return machine.name;
  },
  'starts balancers': (world) => {
    for (const machine of world.machines) machine.startBalancer();
    return null;
  },
  'stops a keepalived': (world) => {
    const machine = world.random.pick(world.machines);
    machine.isAnnouncing = false;
    return machine.name;
  },
  'starts keepaliveds': (world) => {
    for (const machine of world.machines) machine.isAnnouncing = machine.isOn;
    return null;
  },
  'kills a controller': (world) =>
    harmController(world, (life) => {
      world.killController(life);
      if (world.random.chance(60)) world.startController();
    }),
  'starts a controller': (world) => (world.controllers.length > 1 ? null : world.startController().name),
  'stops a controller for a while': (world) =>
    harmController(world, ({ clock }) => {
      const { isHeld } = clock;
      clock.hold();
      return !isHeld;
    }),
  'lets controllers go on': (world) => {
    for (const { clock } of world.controllers) clock.goOn();
    return null;
  },
  'cuts a controller off': (world) => harmController(world, ({ link }) => (link.isCut = true)),
  'begins work on a node': (world) => {
    const machine = world.random.pick(world.machines);
    return setConditions(world, machine, [world.random.pick(endings)]) ? machine.name : null;
  },
  'ends work on nodes': (world) => endWork(world),
  'takes the API away': (world) => {
    world.api.delayMs = null;
    return 'for a while';
  },
  'slows the API': (world) => {
    world.api.delayMs = world.random.pick([100, 800, 2500]);
    return `${world.api.delayMs} ms`;
  },
  'forgets versions': (world) => {
    world.api.compact();
    return 'all';
  },
  'ends watches': (world) => {
    const isBroken = world.random.chance(50);
    world.api.endWatches(({ isOpen }) => isOpen && world.random.chance(50), isBroken);
    return isBroken ? 'as a server that is killed' : 'in order';
  },
  heals: (world) => heal(world),
};

/** Whatever was broken works again. */
export function heal(world: World): string {
  world.api.delayMs = 0;
  powerOn(world);
  connectAll(world);
  for (const machine of world.machines) {
    if (machine.life !== null) machine.life.link.isFrozen = false;
    machine.cut(false);
    machine.isAnnouncing = true;
    machine.startBalancer();
  }
  for (const { clock, link } of world.controllers) {
    link.isCut = false;
    clock.goOn();
  }
  if (world.controllers.length === 0) world.startController();
  endWork(world);
  world.api.catchUp();
  return 'all';
}

function breakLink(what: 'isCut' | 'isFrozen'): Act {
  return (world) => {
    const { life, name } = world.random.pick(world.machines);
    if (life !== null) life.link[what] = true;
    return life === null ? null : name;
  };
}

/** Of one of the controllers. It could not be done where `harm` answers false. */
function harmController(
  { controllers, random }: World,
  harm: (life: World['controllers'][number]) => unknown,
): string | null {
  const life = controllers[random.below(controllers.length)];
  return life === undefined || harm(life) === false ? null : life.name;
}

function endWork(world: World): string | null {
  const ended = world.machines.filter((machine) => machine.isEnding && setConditions(world, machine, []));
  return ended.length === 0 ? null : nameAll(ended);
}

/** A Node ends, or stays: without any. */
function setConditions({ api }: World, machine: Machine, conditions: readonly object[]): boolean {
  if (api.delayMs === null) return false;
  api.objects.patch('Node', machine.name, { status: { conditions } }, true);
  machine.noteEnding(conditions.length > 0);
  return true;
}

function powerOn(world: World): string | null {
  const off = world.machines.filter(({ isOn }) => !isOn);
  for (const machine of off) {
    machine.isReachable = true;
    world.kubernetes.powerOn(machine);
    machine.powerOn();
  }
  return off.length === 0 ? null : nameAll(off);
}

function connectAll(world: World): string | null {
  const cut = world.machines.filter(({ isReachable, life }) => !isReachable || life?.link.isCut === true);
  for (const machine of cut) {
    if (!machine.isReachable) machine.noteTrouble();
    machine.isReachable = true;
    machine.cut(false);
  }
  world.api.catchUp();
  return cut.length === 0 ? null : nameAll(cut);
}

function nameAll(machines: readonly Machine[]): string {
  return machines.map(({ name }) => name).join();
}

/** Where new connections go on a machine, and where they do not, by what its balancer was told. */
import { isTrue } from '../controller/pod-facts.ts';
import { type Life, type Machine } from './machine.ts';
import { type Served } from './traffic.ts';
import { type World } from './world.ts';

/** Kernels have what a balancer was told after this. */
const appliedMs = 1500;

/** A machine that is off is out after this where a seat is held; others ask each 5 s. */
const outMs = { holding: 3000, idle: 20_000 };

/** Who is asked only after it went has never answered, and stays in use: it has to be used for so long before. */
const askedMs = 40_000;

/** A machine that was well for so long is in use. */
const steadyMs = 30_000;

interface Look {
  readonly world: World;
  readonly machine: Machine;
  readonly life: Life;
  readonly served: Served;
  readonly slots: ReadonlyMap<string, number>;
  readonly nowMs: number;
}

/** What is wrong on a machine now. */
export function judgeNew(world: World, machine: Machine): string[] {
  const { life, kernel } = machine;
  if (life === null || life.clock.isHeld || !kernel.isAlive) return [];
  return world.traffic.listServices().flatMap((served) => {
    const slots = kernel.readSlots(served.vip);
    if (slots === null) return [];
    const look: Look = { world, machine, life, served, slots, nowMs: world.clock.now() };
    // Where nobody is well, connections go to whoever is left.
    return isAnyWell(look) ? [...findWrong(look), ...findLeftOut(look)] : [];
  });
}

function isAnyWell({ life, served: { key }, slots, nowMs, world }: Look): boolean {
  return [...life.told.list(key)].some(([address, { verdict, sinceMs }]) => {
    const node = world.kubernetes.findAt(address)?.machine;
    const isUp = node?.isUp === true && !life.nodes.outages.out.has(node.name);
    const isLong = nowMs - sinceMs > appliedMs && isStaying(life, node);
    return verdict === 'yes' && isLong && slots.has(address) && isUp;
  });
}

/** Whether it was long ago that a node ended, by what the balancer was told. */
function isStaying({ toldNodes }: Life, node: Machine | undefined): boolean {
  return node !== undefined && toldNodes.judge(node.name, appliedMs) === false;
}

function findWrong(look: Look): string[] {
  const { life, machine, served, slots, nowMs } = look;
  return [...slots.keys()].flatMap((address) => {
    const { verdict, sinceMs } = life.told.judge(served.key, address);
    const what = `new connections of ${served.key} go to ${address} on ${machine.name}`;
    const isBegun = nowMs - life.bornMs > 2 * appliedMs;
    if (verdict === 'no' && nowMs - sinceMs > appliedMs && isBegun)
      return [`${what}, ${nowMs - sinceMs} ms after it was told that it takes none`];
    const node = look.world.kubernetes.findAt(address)?.machine.name ?? '';
    if (isBegun && life.toldNodes.judge(node, appliedMs) === true) return [`${what}, whose node ends`];
    return isLongOut(look, address, sinceMs) ? [`${what}, whose node is off`] : [];
  });
}

/** Whether the machine of an address is off, for so long that whoever asked it before knows. */
function isLongOut({ world, machine, life, served, nowMs }: Look, address: string, sinceMs: number): boolean {
  const own = world.kubernetes.findAt(address)?.machine;
  if (own === undefined || own.isUp || !machine.isUp || own === machine) return false;
  const usedMs = Math.max(life.bornMs, sinceMs, world.traffic.servedSince(served));
  // Whoever just got a seat asks often only from then on.
  const knownMs = Math.max(own.troubledMs, machine.troubledMs, machine.heldMs);
  const limitMs = machine.seats.length > 0 ? outMs.holding : outMs.idle;
  const isCorroborated = world.machines.some(
    (one) => one !== machine && one !== own && one.isUp && one.life !== null,
  );
  return isCorroborated && usedMs < own.troubledMs - askedMs && nowMs - knownMs > limitMs;
}

/** A pod that is ready, on a machine that was well for a while, is left out by a machine's own word. */
function findLeftOut({ world, machine, life, served: { key }, slots, nowMs }: Look): string[] {
  if (nowMs - life.bornMs <= 2 * appliedMs) return [];
  const { kubernetes } = world;
  const left = [...life.told.list(key)].filter(
    ([address, { verdict, sinceMs }]) =>
      verdict === 'yes' &&
      nowMs - sinceMs >= appliedMs &&
      !slots.has(address) &&
      isStaying(life, kubernetes.findAt(address)?.machine) &&
      isWell(world, address),
  );
  return left.map(
    ([address]) => `no new connections of ${key} go to ${address} on ${machine.name}, whose node is well`,
  );
}

function isWell({ kubernetes, api, clock }: World, address: string): boolean {
  const pod = kubernetes.findAt(address);
  const object = api.objects.list('Pod').get(pod?.key ?? '');
  if (pod === null || object === undefined || !isTrue(object, 'Ready')) return false;
  const isLong = (sinceMs: number) => clock.now() - sinceMs > steadyMs;
  const isUsual = object.metadata.annotations?.['vipnat.io/weight'] === undefined;
  return isUsual && pod.machine.isUp && isLong(pod.machine.troubledMs) && isLong(pod.changedMs);
}

import { type Kind } from '../../../support/fakes/object-api.ts';
import { Random } from '../../../support/random/random.ts';
import { type Walk } from '../engine/walks.ts';
import { Cluster, type Leaders, type Surroundings } from './cluster.ts';
import { drawHabits, type Habits } from './habits.ts';
import { type Decide, type SimulatedController } from './controller.ts';
import { deeds } from './people.ts';
import { busy } from './busy.ts';
import { findGateFaults } from './gate-rest.ts';
import { podDeeds, prepare } from './pods.ts';
import { findLeftovers } from './rest.ts';
import { scenes } from './scenes.ts';

interface WalkOptions {
  readonly decide: Decide;
  readonly seed: number;
  readonly leaders: Leaders;
  readonly actions: number;
  readonly hasPods?: boolean;
}

type Act = (cluster: Cluster, random: Random) => string | null;

/** Walks, lets everything come to rest, and answers the first complaint. */
export function walk({ decide, seed, leaders, actions, hasPods = false }: WalkOptions): Walk {
  const random = new Random(seed);
  const habits = drawHabits(random, Object.keys(deeds));
  const cluster = new Cluster(decide, leaders, { habits, hasPods });
  const history: string[] = [];
  const finish = (complaint: string | null): Walk => ({ seed, history, complaint, counts: cluster.counts });
  if (hasPods) prepare(cluster);
  for (const name of drawBeginning(random)) tell(history, name, deeds[name]?.(cluster, random) ?? null);
  for (let action = 0; action < actions; action += 1) {
    const [name, act] = drawAny(random, { leaders, hasPods, habits });
    tell(history, name, act(cluster, random));
    const [complaint] = cluster.complaints;
    if (complaint !== undefined) return finish(complaint);
  }
  const [leftover] = [...findLeftovers(cluster), ...(hasPods ? findGateFaults(cluster) : [])];
  return finish(leftover ?? null);
}

/** Most walks begin with something to give, and some with an address that is not free. */
function drawBeginning(random: Random): string[] {
  const foreign = random.chance(40) ? ['gives another host an address'] : [];
  return ['makes a pool', 'creates a Service', 'creates a Service', ...foreign];
}

function tell(history: string[], name: string, what: string | null): void {
  if (what !== null) history.push(`${name}: ${what}`);
}

function drawAny(
  random: Random,
  { leaders, hasPods, habits }: Surroundings & { readonly leaders: Leaders },
): [string, Act] {
  if (!hasPods || !random.chance(15)) return drawAct(random, leaders, habits);
  const name = random.pick(Object.keys(podDeeds));
  return [name, podDeeds[name] ?? pass];
}

function drawAct(random: Random, leaders: Leaders, { shares, deeds: names }: Habits): [string, Act] {
  let drawn = random.below(200);
  const isDrawn = (share: number) => {
    drawn -= share;
    return drawn < 0;
  };
  if (isDrawn(shares.time)) return ['time', pass];
  if (isDrawn(shares.deeds)) {
    const name = random.pick(names);
    return [name, deeds[name] ?? pass];
  }
  if (isDrawn(shares.scenes)) return ['scene', scenes[leaders]];
  if (isDrawn(shares.nodes)) return ['node', shakeNode];
  if (isDrawn(shares.calms)) return ['calm', recover];
  if (!isDrawn(shares.leaders)) return ['', workOn];
  return leaders === 'one' ? ['leader', handOver] : ['leaders', shakeLeaders];
}

/** Something small of a controller or a node. */
const workOn: Act = (cluster, random) => {
  const drawn = random.below(10);
  const awake = listAwake(cluster);
  const [controller] = awake.length === 0 ? [] : [random.pick(awake)];
  if (drawn < 2 || controller === undefined) return workOnNodes(cluster, random);
  if (drawn < 4) {
    if (random.chance(cluster.habits.hearPercent)) hearSome(cluster.kinds, controller, random);
    return null;
  }
  const { due } = controller;
  if (drawn < 7 && due.length > 0) controller.take(random.pick(due));
  else if (controller.inFlight > 0) return proceed(controller, cluster, random);
  return null;
};

function hearSome(kinds: readonly Kind[], controller: SimulatedController, random: Random): void {
  const heard = random.chance(50) ? kinds : [random.pick(kinds)];
  for (const kind of heard) controller.hear(kind, 1 + random.below(8));
}

const workOnNodes: Act = (cluster, random) => {
  for (const node of random.chance(50) ? cluster.nodes : [random.pick(cluster.nodes)]) {
    node.program(1 + random.below(6));
    if (random.chance(70)) node.report();
  }
  return null;
};

function proceed(controller: SimulatedController, { habits }: Cluster, random: Random): string | null {
  const outcome = !random.chance(habits.lossPercent)
    ? 'done'
    : random.pick(['never sent', 'answer lost'] as const);
  const what = controller.proceed(random.below(controller.inFlight), outcome);
  return what === null ? null : `${what}${outcome === 'done' ? '' : ` (${outcome})`}`;
}

const pass: Act = (cluster, random) => {
  const ms = random.pick([100, 500, 1000, 5000, 20_000, 45_000]);
  // Watches that are up deliver meanwhile, most of the time.
  if (random.chance(80)) for (const controller of listAwake(cluster)) controller.hear('Lease', Infinity);
  if (random.chance(50)) for (const controller of listAwake(cluster)) controller.hearAll();
  cluster.pass(ms);
  return `${ms} ms`;
};

/** Nodes are well most of the time. */
const [back, near] = ['started', 'reachable'] as const;
const shakes = ['killed', back, back, back, near, near, near, 'mode'] as const;

const shakeNode: Act = (cluster, random) => {
  const node = random.pick(cluster.nodes);
  const what = random.chance(cluster.habits.cutPercent) ? 'cut off' : random.pick(shakes);
  if (what === 'killed') node.isRunning = false;
  if (what === 'started') node.start();
  if (what === 'cut off') node.isConnected = false;
  if (what === 'reachable') node.isConnected = true;
  if (what === 'mode') node.mode = random.pick(['direct', 'direct', 'kube-proxy', 'none'] as const);
  return `${node.name} ${what}`;
};

/** All is well for a while, so that Services get as far as an address. Controllers are faster than nodes, or slower. */
const recover: Act = (cluster, random) => {
  cluster.mend();
  const rounds = 1 + random.below(12);
  for (let left = rounds; left > 0; left -= 1) {
    busy(cluster, cluster.controllers, 1, random.chance(40) ? cluster.nodes : []);
    cluster.pass(random.pick([0, 0, 0, 1000]));
  }
  return `${rounds} rounds`;
};

/** kill -9, and the next one begins; or its date jumps. */
const handOver: Act = (cluster, random) => {
  const [leader] = cluster.controllers;
  if (leader !== undefined && random.chance(cluster.habits.deafPercent)) return deafen(leader, random);
  if (leader !== undefined && random.chance(30)) {
    leader.dateOffsetMs = random.pick([-3_600_000, -5000, 0, 3_600_000]);
    return `its date is off by ${leader.dateOffsetMs} ms`;
  }
  if (leader !== undefined) cluster.kill(leader);
  if (random.chance(20)) cluster.isDefaultClass = !cluster.isDefaultClass;
  cluster.lead();
  return `another one${cluster.isDefaultClass ? ', for Services without a class, too' : ''}`;
};

const shakeLeaders: Act = (cluster, random) => {
  const controller = random.pick([...cluster.controllers, cluster.lead()].slice(0, 2));
  cluster.controllers = cluster.controllers.slice(0, 2);
  if (random.chance(cluster.habits.deafPercent)) return deafen(controller, random);
  if (random.chance(cluster.habits.pausePercent)) return holdUp(controller);
  if (cluster.controllers.length < 2) return 'two';
  cluster.kill(controller);
  return 'one';
};

/** Its watch of a kind falls silent, or is up again. */
function deafen(controller: SimulatedController, random: Random): string {
  controller.frozen =
    controller.frozen === null ? random.pick(['VirtualIP', 'VirtualIP', 'Service'] as const) : null;
  return `one no longer hears of: ${controller.frozen ?? 'nothing'}`;
}

/** It is held up as a whole, or goes on. */
function holdUp(controller: SimulatedController): string {
  controller.isHeldUp = !controller.isHeldUp;
  return controller.isHeldUp ? 'one is held up' : 'one goes on';
}

function listAwake({ controllers }: Cluster): readonly SimulatedController[] {
  return controllers.filter(({ isHeldUp }) => !isHeldUp);
}

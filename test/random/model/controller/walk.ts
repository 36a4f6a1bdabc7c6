import { type Kind } from '../../../support/fakes/object-api.ts';
import { Random } from '../../fuzz/engine/random.ts';
import { Cluster, type Leaders } from './cluster.ts';
import { type Decide, type SimulatedController } from './controller.ts';
import { deeds } from './people.ts';
import { findLeftovers } from './rest.ts';

/** One walk: what happened, and what was wrong first. */
export interface Walk {
  readonly seed: number;
  readonly history: readonly string[];
  readonly complaint: string | null;
  /** What happened how often. */
  readonly counts: ReadonlyMap<string, number>;
}

interface WalkOptions {
  readonly decide: Decide;
  readonly seed: number;
  readonly leaders: Leaders;
  /** How much happens. */
  readonly actions: number;
}

type Act = (cluster: Cluster, random: Random) => string | null;

const kinds: readonly Kind[] = ['Service', 'VirtualIP', 'AddressPool', 'Namespace', 'Node', 'Lease'];

/** Walks, lets everything come to rest, and answers the first complaint. */
export function walk({ decide, seed, leaders, actions }: WalkOptions): Walk {
  const random = new Random(seed);
  const cluster = new Cluster(decide, leaders);
  const history: string[] = [];
  const finish = (complaint: string | null): Walk => ({ seed, history, complaint, counts: cluster.counts });
  // Most walks begin with something to give.
  for (const name of ['makes a pool', 'creates a Service', 'creates a Service'])
    tell(history, name, deeds[name]?.(cluster, random) ?? null);
  for (let action = 0; action < actions; action += 1) {
    const [name, act] = drawAct(random, leaders);
    tell(history, name, act(cluster, random));
    const [complaint] = cluster.complaints;
    if (complaint !== undefined) return finish(complaint);
  }
  return finish(findLeftovers(cluster)[0] ?? null);
}

function tell(history: string[], name: string, what: string | null): void {
  if (what !== null) history.push(`${name}: ${what}`);
}

function drawAct(random: Random, leaders: Leaders): [string, Act] {
  const drawn = random.below(200);
  if (drawn < 172) return ['', workOn];
  if (drawn < 180) return ['time', pass];
  if (drawn < 192) {
    const name = random.pick(Object.keys(deeds));
    return [name, deeds[name] ?? pass];
  }
  if (drawn < 197) return ['node', shakeNode];
  return leaders === 'one' ? ['leader', handOver] : ['leaders', shakeLeaders];
}

/** Something small of a controller or a node. */
const workOn: Act = (cluster, random) => {
  const drawn = random.below(10);
  const [controller] = cluster.controllers.length === 0 ? [] : [random.pick(cluster.controllers)];
  if (drawn < 2 || controller === undefined) return workOnNodes(cluster, random);
  if (drawn < 4) {
    const heard = random.chance(50) ? kinds : [random.pick(kinds)];
    for (const kind of heard) controller.hear(kind, 1 + random.below(8));
    return null;
  }
  const { due } = controller;
  if (drawn < 7 && due.length > 0) controller.take(random.pick(due));
  else if (controller.inFlight > 0) return proceed(controller, random);
  return null;
};

const workOnNodes: Act = (cluster, random) => {
  for (const node of random.chance(50) ? cluster.nodes : [random.pick(cluster.nodes)]) {
    node.program(1 + random.below(6));
    if (random.chance(70)) node.report();
  }
  return null;
};

function proceed(controller: SimulatedController, random: Random): string | null {
  const outcome = random.chance(90) ? 'done' : random.pick(['never sent', 'answer lost'] as const);
  const what = controller.proceed(random.below(controller.inFlight), outcome);
  return what === null ? null : `${what}${outcome === 'done' ? '' : ` (${outcome})`}`;
}

const pass: Act = (cluster, random) => {
  const ms = random.pick([100, 500, 1000, 5000, 20_000, 45_000]);
  // Watches that are up deliver meanwhile, most of the time.
  if (random.chance(80)) for (const controller of cluster.controllers) controller.hear('Lease', Infinity);
  if (random.chance(50)) for (const controller of cluster.controllers) controller.hearAll();
  cluster.pass(ms);
  return `${ms} ms`;
};

/** Nodes are well most of the time. */
const shakes = [
  'killed',
  'started',
  'started',
  'started',
  'cut off',
  'reachable',
  'reachable',
  'reachable',
  'mode',
] as const;

const shakeNode: Act = (cluster, random) => {
  const node = random.pick(cluster.nodes);
  const what = random.pick(shakes);
  if (what === 'killed') node.isRunning = false;
  if (what === 'started') node.start();
  if (what === 'cut off') node.isConnected = false;
  if (what === 'reachable') node.isConnected = true;
  if (what === 'mode') node.mode = random.pick(['direct', 'direct', 'kube-proxy', 'none'] as const);
  return `${node.name} ${what}`;
};

/** kill -9, and the next one begins; or its date jumps. */
const handOver: Act = (cluster, random) => {
  const [leader] = cluster.controllers;
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
  if (random.chance(50)) {
    controller.frozen =
      controller.frozen === null ? random.pick(['VirtualIP', 'VirtualIP', 'Service'] as const) : null;
    return `one no longer hears of: ${controller.frozen ?? 'nothing'}`;
  }
  if (cluster.controllers.length < 2) return 'two';
  cluster.kill(controller);
  return 'one';
};

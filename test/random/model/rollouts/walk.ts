import type { MachinePlace } from './machine.ts';
import type { NodeWatch } from '../../../../balancer/nodes/health.ts';
import type { Walk } from '../engine/walks.ts';
import { World } from './world.ts';
import { heal, faults } from './faults.ts';
import { findUntruths } from './truth.ts';
import { createService, peopleDeeds } from './people.ts';

interface WalkOptions {
  readonly seed: number;
  readonly steps: number;
  /** As the product has it unless given. */
  readonly wrapNodes?: MachinePlace['wrapNodes'];
  /** Faults that come more often. */
  readonly favored?: readonly string[];
}

/** So many steps until all is healed, and time passes. */
const stepsToQuiet = 30;

/** Longer than an endpoint stays in an early EndpointSlice that no longer waits, and than any back-off. */
const quietMs = 100_000;

const asIs = (health: NodeWatch): NodeWatch => health;

/** Walks until something is wrong, or to the end. */
export async function walk({ seed, steps, wrapNodes = asIs, favored = [] }: WalkOptions): Promise<Walk> {
  const world = new World(seed, wrapNodes);
  const history: string[] = [];
  const tell = (name: string, what: string | null) => {
    if (what !== null) history.push(`${(world.clock.now() / 1000).toFixed(1)} ${name}: ${what}`);
  };
  await begin(world, tell);
  for (let step = 1; step <= steps && !world.hasComplaint(); step += 1) {
    act(world, tell, favored);
    await world.pass(world.random.pick([0, 250, 1000, 2000, 5000]));
    if (step % stepsToQuiet !== 0 || world.hasComplaint()) continue;
    tell('a quiet', heal(world));
    await world.pass(quietMs);
    if (!world.hasComplaint()) world.complaints.push(...findUntruths(world));
    world.count('quiets');
  }
  tell('the end', '');
  stop(world);
  return { seed, history, complaint: world.complaints[0] ?? null, counts: world.counts };
}

type Tell = (name: string, what: string | null) => void;

async function begin(world: World, tell: Tell): Promise<void> {
  await world.pass(12_000);
  tell('creates a Service', createService(world, 'apps/a'));
  tell('creates a Service', createService(world, 'infra/a'));
  await world.pass(5000);
}

/** Three of four are people's, as long as the API takes anything. */
function act(world: World, tell: Tell, favored: readonly string[]): void {
  const { random, api } = world;
  const isFault = random.chance(25) || api.delayMs === null;
  const table = isFault ? faults : peopleDeeds;
  const isFavored = isFault && favored.length > 0 && random.chance(60);
  const names = isFavored ? favored : Object.keys(table);
  const name = isFault && random.chance(30) ? 'heals' : random.pick(names);
  tell(name, table[name]?.(world) ?? null);
}

/** Whatever is under way ends: nothing is left of a walk. */
function stop(world: World): void {
  for (const machine of world.machines) machine.killBalancer();
  for (const life of [...world.controllers]) world.killController(life);
}

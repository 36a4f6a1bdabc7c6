import { type Failure, type Limits, runWalk } from './run-walk.ts';
import { type Shrunk, shrinkWalk } from './shrink-walk.ts';
import { countSteps, describeFaults, splitBursts, type Walk } from './walk.ts';
import type { WorldKind } from './world.ts';

interface Proof {
  readonly kind: WorldKind;
  readonly walk: Walk;
  /** What the walk is called in what is printed: `seed 7`. */
  readonly title: string;
  readonly limits?: Limits;
  /** How long the shortest walk that fails may be looked for; 0 leaves that out. */
  readonly shrinkMs: number;
}

/**
 * Runs a walk on a fresh world and tells on standard error what it was. Throws when the world complains: with the title, the step,
 * the complaints, the end of the logs, and the shortest walk that still fails as a line for found.ts.
 */
export async function proveWalk(proof: Proof): Promise<void> {
  const { kind, walk, title, limits } = proof;
  const started = performance.now();
  const failure = await runWalk(await kind.open(), walk, limits);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const size = `${countSteps(walk)} steps in ${splitBursts(walk).length} bursts`;
  process.stderr.write(`${kind.name}, ${title}: ${size}, ${seconds} s: ${describeFaults(walk)}\n`);
  if (failure === null) return;
  const message = describeFailure(proof, failure);
  // At once: shrinking takes its time, and may be interrupted.
  process.stderr.write(`${message}\n`);
  const shrunk = await shrink(proof, failure);
  const told = shrunk === null ? '' : describeShrunk(shrunk);
  process.stderr.write(`${told}\n`);
  throw new Error(`${message}\n${told}`);
}

async function shrink({ kind, limits, shrinkMs }: Proof, failure: Failure): Promise<Shrunk | null> {
  if (shrinkMs === 0) return null;
  const fails = async (walk: Walk) => (await runWalk(await kind.open(), walk, limits)) !== null;
  return shrinkWalk(failure.walk, fails, shrinkMs);
}

function describeFailure({ kind, title }: Proof, { step, walk, complaints, description }: Failure): string {
  return [
    `${kind.name}, ${title}: wrong after step ${step}:`,
    ...complaints.map((complaint) => `  ${complaint}`),
    `the walk so far: ${JSON.stringify(walk)}`,
    description,
  ].join('\n');
}

function describeShrunk({ walk, isFlaky, tries }: Shrunk): string {
  const kind = isFlaky ? 'it does not fail every time; the shortest seen to fail' : 'the shortest that fails';
  return `${kind}, after ${tries} tries, as a walk for test/random/chaos/found.ts:\n${JSON.stringify(walk)}`;
}

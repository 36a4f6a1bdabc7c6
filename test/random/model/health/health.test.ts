import { describe, expect, jest, test } from '@jest/globals';
import { broken } from './broken.ts';
import { apiservers, type Change, changes } from './changes.ts';
import { findComplaints, findSoonComplaints, findUnfair, freezeMs } from './check.ts';
import { HealthWorld, type MakeMonitor, makeMonitor } from './world.ts';
import { byExtent, isLong } from '../../../support/jest/extent.ts';
import { chooseOneIn } from '../../../support/random/runs.ts';
import { printFigure } from '../engine/print-figure.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

/** Between two changes: within a question's round trip, within a probe's interval, and when all has been judged. */
const pausesMs = [1, 130, 4500];

const restMs = 10_000;

/** One that answers 2 s late has answered nothing since a change. */
const hastyMs = 1500;

type Walk = readonly (readonly [Change, number])[];

/** Every list of so many changes, with each of the pauses between them, and a rest at the end. */
function* listWalks(length: number, pauses: readonly number[]): Generator<Walk> {
  for (const before of listBeginnings(length - 1, pauses))
    for (const change of changes) yield [...before, [change, restMs]];
}

function* listBeginnings(length: number, pauses: readonly number[]): Generator<Walk> {
  if (length === 0) {
    yield [];
    return;
  }
  for (const before of listBeginnings(length - 1, pauses))
    for (const change of changes) for (const pauseMs of pauses) yield [...before, [change, pauseMs]];
}

/** Two changes in a row; at length, three as well. */
function* listAll(): Generator<Walk> {
  yield* listWalks(2, pausesMs);
  if (isLong) yield* listWalks(3, [130]);
}

async function walk(make: MakeMonitor, steps: Walk): Promise<string[]> {
  const world = new HealthWorld(make);
  await world.pass(2500);
  let before: ReadonlyMap<string, string | undefined> = new Map();
  for (const [change, pauseMs] of steps) {
    before = new Map(apiservers.map((one) => [one, world.stateOf(one)]));
    await change.run(world);
    if (pauseMs < restMs) await world.pass(pauseMs);
  }
  await world.pass(hastyMs);
  const hasty = findUnfair(world, hastyMs, before);
  await world.pass(freezeMs - hastyMs);
  const soon = [...hasty, ...findSoonComplaints(world), ...findUnfair(world, freezeMs, before)];
  await world.pass(restMs - freezeMs);
  const complaints = [...soon, ...findComplaints(world), ...findUnfair(world, restMs, before)];
  world.stop();
  return complaints.map(
    (complaint) => `${complaint}, after: ${steps.map(([{ name }, ms]) => `${name}, ${ms} ms`).join('; ')}`,
  );
}

/** The first complaint of any of these walks, or null, and how many walks were made. */
async function walkAll(
  make: MakeMonitor,
  chosen: Iterable<Walk> = listAll(),
): Promise<{ complaint: string | null; walks: number }> {
  let walks = 0;
  for (const steps of chosen) {
    walks += 1;
    const [complaint] = await walk(make, steps);
    if (complaint !== undefined) return { complaint, walks };
  }
  return { complaint: null, walks };
}

test('whatever comes to apiservers, each is asked no more than it may be, and who fails is out (I13)', async () => {
  const { complaint, walks } = await walkAll(makeMonitor, chooseOneIn(40, [...listAll()]));
  expect(complaint).toBeNull();
  printFigure(`health: ${walks} walks of ${isLong ? '2 or 3' : '2'} changes, each left alone for 10 s`);
  expect(walks).toBeGreaterThan(byExtent({ gate: 150, full: 5000, long: 70_000 }));
});

describe('the model notices a monitor that', () => {
  test.each(Object.entries(broken))('%s', async (name, { make, complaint }) => {
    const found = await walkAll(make);
    expect(found.complaint).toContain(complaint);
    printFigure(`a monitor that ${name}: ${String(found.complaint)}`);
  });
});

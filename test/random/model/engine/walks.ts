import { expect } from '@jest/globals';
import { printFigure } from './print-figure.ts';

/** One walk of a model: what happened, and what was wrong first. */
export interface Walk {
  readonly seed: number;
  readonly history: readonly string[];
  readonly complaint: string | null;
  readonly counts: ReadonlyMap<string, number>;
}

type MakeWalk = (seed: number) => Walk | Promise<Walk>;

/** Each broken version is caught by one walk in thirty at least: see controller/habits.ts. */
const mostWalks = 200;

/** Walks with each seed up to a number, none of which may complain. Answers how often all of them did what. */
export async function expectNoComplaint(walks: number, walk: MakeWalk): Promise<Map<string, number>> {
  const sums = new Map<string, number>();
  for (let seed = 1; seed <= walks; seed += 1) {
    const { complaint, history, counts } = await walk(seed);
    const lines = [`seed ${seed}: ${complaint}`, ...history.map((line) => line.slice(0, 400))];
    if (complaint !== null) expect(lines.join('\n')).toBe('no complaint');
    for (const [what, count] of counts) sums.set(what, (sums.get(what) ?? 0) + count);
  }
  printFigure(JSON.stringify([...sums]));
  return sums;
}

/** Walks with a broken version until that is complained of, which has to be the complaint that belongs to it. */
export async function expectComplaint(expected: RegExp, walk: MakeWalk): Promise<void> {
  for (let seed = 1; seed <= mostWalks; seed += 1) {
    const { complaint } = await walk(seed);
    if (complaint === null) continue;
    printFigure(`caught by seed ${seed}: ${complaint.slice(0, 200)}`);
    expect(complaint).toMatch(expected);
    return;
  }
  expect(0).toBe('a complaint');
}

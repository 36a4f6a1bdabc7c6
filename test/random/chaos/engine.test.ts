import { describe, expect, test } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';
import { drawWalk } from '../../support/chaos/engine/draw-walk.ts';
import { proveWalk } from '../../support/chaos/engine/prove-walk.ts';
import { runWalk } from '../../support/chaos/engine/run-walk.ts';
import { shrinkWalk } from '../../support/chaos/engine/shrink-walk.ts';
import {
  countSteps,
  isQuiet,
  quiet,
  splitBursts,
  type Step,
  type Walk,
} from '../../support/chaos/engine/walk.ts';
import type { Fault, World } from '../../support/chaos/engine/world.ts';

const limits = { quietMs: 50, judgements: 2, steadyMs: 0 };

/** A shelf on which things stand: whoever breaks a plate after the vase has done it. */
class Shelf implements World {
  readonly made: string[] = [];
  isClosed = false;
  #needsLooks = 0;
  readonly #breaches: string[] = [];

  perform({ fault, times }: Step): Promise<void> {
    this.made.push(fault);
    if (fault === 'wobble') this.#needsLooks = Number(times);
    if (fault === 'alarm') this.#breaches.push('the alarm rang');
    return Promise.resolve();
  }

  calm(): Promise<void> {
    return Promise.resolve();
  }

  judge(): Promise<string[]> {
    this.#needsLooks -= 1;
    if (this.#needsLooks > 0) return Promise.resolve(['it wobbles']);
    const vase = this.made.indexOf('vase');
    return Promise.resolve(vase >= 0 && this.made.indexOf('plate', vase) > vase ? ['shards'] : []);
  }

  takeBreaches(): string[] {
    return this.#breaches.splice(0);
  }

  finish(): Promise<string[]> {
    return Promise.resolve(this.made.at(-1) === 'dust' ? ['dust is left'] : []);
  }

  describe(): string {
    return `made: ${this.made.join()}`;
  }

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }
}

const faults: Fault[] = [
  { name: 'plate', weight: 1, arguments: fc.constant({}) },
  { name: 'cup', weight: 8, arguments: fc.record({ colour: fc.constantFrom('red', 'green') }) },
];

const walk = (...names: string[]): Walk => names.map((fault) => (fault === 'quiet' ? quiet : { fault }));

describe('a drawn walk', () => {
  test('is the same for the same seed, another for another, and has as many steps as asked for', () => {
    const one = drawWalk(faults, 1, 200);
    expect(drawWalk(faults, 1, 200)).toEqual(one);
    expect(drawWalk(faults, 2, 200)).not.toEqual(one);
    expect(countSteps(one)).toBe(200);
    expect(JSON.parse(JSON.stringify(one))).toEqual(one);
  });

  test('begins as the longer one does', () => {
    const long = drawWalk(faults, 3, 300).filter((step) => !isQuiet(step));
    expect(drawWalk(faults, 3, 40).filter((step) => !isQuiet(step))).toEqual(long.slice(0, 40));
  });

  test('has faults by their weights, in bursts', () => {
    const steps = drawWalk(faults, 4, 900);
    const plates = steps.filter(({ fault }) => fault === 'plate').length;
    expect(plates).toBeGreaterThan(50);
    expect(plates).toBeLessThan(200);
    expect(splitBursts(steps).length).toBeGreaterThan(75);
  });
});

describe('a walk that is run', () => {
  test('fails at the end of the burst in which the world went wrong, and closes the world', async () => {
    const world = new Shelf();
    const steps = walk('cup', 'vase', 'quiet', 'plate', 'cup', 'quiet', 'cup');
    const failure = await runWalk(world, steps, limits);
    const description = 'made: cup,vase,plate,cup';
    expect(failure).toMatchObject({ step: 4, complaints: ['shards'], description });
    expect(failure?.walk.map(({ fault }) => fault).join()).toBe('cup,vase,quiet,plate,cup,quiet');
    expect(world.isClosed).toBe(true);
  });

  test('fails at once for what must hold at every moment, and at the end for what is left behind', async () => {
    const atOnce = await runWalk(new Shelf(), walk('alarm', 'cup'), limits);
    expect(atOnce).toMatchObject({ step: 1, complaints: ['the alarm rang'] });
    const atEnd = await runWalk(new Shelf(), walk('cup', 'dust'), limits);
    expect(atEnd).toMatchObject({ complaints: ['dust is left'] });
  });

  test('waits for what settles, and not for longer than it may', async () => {
    const patient = { quietMs: 0, judgements: 3, steadyMs: 0 };
    expect(await runWalk(new Shelf(), [{ fault: 'wobble', times: 3 }], patient)).toBeNull();
    const failure = await runWalk(new Shelf(), [{ fault: 'wobble', times: 1000 }], limits);
    expect(failure?.complaints).toEqual(['it wobbles']);
  });
});

describe('a walk that failed', () => {
  const fails = async (candidate: Walk) => (await runWalk(new Shelf(), candidate, limits)) !== null;
  const crowded = walk(...'cup plate quiet cup vase cup quiet cup cup quiet cup plate cup quiet'.split(' '));

  test('is shrunk to the steps that are needed', async () => {
    const shrunk = await shrinkWalk(crowded, fails, 600_000);
    expect(shrunk).toMatchObject({ isFlaky: false, walk: walk('vase', 'plate') });
  });

  test('is called flaky when it does not fail again', async () => {
    const lucky = () => Promise.resolve(false);
    expect(await shrinkWalk(crowded, lucky, 600_000)).toMatchObject({ isFlaky: true, walk: crowded });
  });

  test('is told of with its seed, its complaints and the walk to commit', async () => {
    const kind = { name: 'shelf', faults, open: () => Promise.resolve(new Shelf()) };
    const proof = proveWalk({ kind, walk: crowded, title: 'seed 7', limits, shrinkMs: 600_000 });
    await expect(proof).rejects.toThrow(
      /shelf, seed 7: wrong after step 10:\n {2}shards\n[^]*\[{"fault":"vase"},{"fault":"plate"}\]$/,
    );
  });
});

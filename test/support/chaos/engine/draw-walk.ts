import { fc } from '../../random/fc.ts';
import { joinBursts, type Step, type Walk } from './walk.ts';
import type { Fault } from './world.ts';

/** The longest burst: so much goes wrong before there is quiet again. */
const longestBurst = 12;

/** Most of what goes wrong at once goes wrong within one look or one write of the agent; some of it later. */
const pause = fc.oneof(
  { arbitrary: fc.constant(0), weight: 3 },
  { arbitrary: fc.integer({ min: 1, max: 60 }), weight: 4 },
  { arbitrary: fc.integer({ min: 61, max: 500 }), weight: 2 },
);

/**
 * The walk with this seed over these faults: the same for the same arguments, and with fewer steps the beginning of the one with
 * more.
 */
export function drawWalk(faults: readonly Fault[], seed: number, steps: number): Walk {
  const step = fc.oneof(...faults.map((fault) => ({ arbitrary: toStep(fault), weight: fault.weight })));
  const burst = fc.array(step, { minLength: 1, maxLength: longestBurst, size: 'max' });
  // Without bias: fast-check's first values would be small ones, and its later ones the same faults again and again.
  const drawn = fc.sample(fc.noBias(burst), { seed, numRuns: steps });
  let left = steps;
  const bursts = drawn.map((members) => {
    const taken = members.slice(0, left);
    left -= taken.length;
    return taken;
  });
  return joinBursts(bursts);
}

function toStep({ name, arguments: others }: Fault): fc.Arbitrary<Step> {
  return fc.tuple(pause, others).map(([pauseMs, said]) => ({ fault: name, pauseMs, ...said }));
}

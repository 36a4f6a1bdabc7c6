import fc from 'fast-check';

/** Of each run the same cases, so that nobody's change fails by another's luck. A failure prints what replays it. */
const usualSeed = 1;

fc.configureGlobal({ seed: Number(process.env['TEST_SEED'] ?? usualSeed) });

/** fast-check, whose cases come from TEST_SEED. `--long` draws that, and prints it. */
export { fc };
export type * from 'fast-check';

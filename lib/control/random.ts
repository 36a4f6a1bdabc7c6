/** A number from 0 up to but not including 1. Where randomness comes from: tests pass one that they choose. */
export type Random = () => number;

/** The random numbers of this machine: for spreading load, not for secrets. */
export const systemRandom: Random = () => Math.random();

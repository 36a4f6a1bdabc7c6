import { unprobed } from '../../../agent/health/usable.ts';

/** Apiservers that nobody probes: all count as ready. */
export const nobodyProbes = { watch: () => unprobed, view: unprobed };

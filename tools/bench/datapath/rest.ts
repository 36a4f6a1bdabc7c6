import type { WindowRecord } from './record.ts';
import { median } from '../shared/statistics.ts';

/** A lab at rest takes less, in cores. */
export const quietCores = 0.5;

/** What to think of figures when a lab at rest leaves so many cores busy. */
export function describeUnrest(cores: number): string {
  return `the machine did other work too: without any client it was busy for ${cores.toFixed(1)} s in each second, so these figures are unreliable`;
}

/** What else the machine did when figures were measured, as a sentence; nothing when it was quiet. */
export function renderUnrest(windows: readonly WindowRecord[]): string {
  const cores = median(windows.map(({ rest }) => rest));
  return cores > quietCores ? ` **${describeUnrest(cores).replace(/^t/, 'T')}.**` : '';
}

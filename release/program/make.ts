import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ReleaseError } from '../settings/error.ts';
import { type Release } from '../settings/release.ts';
import { listSummed, writeSums } from './sums.ts';
import { requirePrograms } from './requirements.ts';
import { type Step, steps } from './steps.ts';

/**
 * Runs the named steps, all when none is named, and sums up everything in the folder. Answers a line for each file, with its
 * size. A whole release takes away what an earlier one left there.
 */
export async function makeRelease(release: Release, names: readonly string[]): Promise<string> {
  const chosen = steps.filter(({ name }) => names.length === 0 || names.includes(name));
  requirePrograms(chosen);
  mkdirSync(release.output, { recursive: true });
  if (names.length === 0)
    for (const name of listSummed(release.output)) rmSync(join(release.output, name), { force: true });
  const made = new Map<string, string>();
  for (const step of chosen) {
    for (const file of await runStep(step, release)) {
      const other = made.get(file);
      if (other !== undefined) throw new ReleaseError(`both steps ${other} and ${step.name} make ${file}`);
      made.set(file, step.name);
    }
  }
  writeSums(release.output);
  return [...made.keys()].map((file) => `${describeSize(join(release.output, file))}  ${file}\n`).join('');
}

async function runStep({ name, make }: Step, release: Release): Promise<readonly string[]> {
  const started = performance.now();
  const files = await make(release);
  release.say(`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
  return files;
}

function describeSize(path: string): string {
  const { size } = statSync(path);
  const text = size < 1e5 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
  return text.padStart(9);
}

import type { Release } from '../settings/release.ts';
import { steps, type Step } from './steps.ts';
import { dividePossible } from './requirements.ts';
import { join } from 'node:path';
import { rmSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { listSummed, writeSums, listFiles } from '../documents/sums.ts';
import { signSums } from '../documents/signature.ts';
import { isImageArchive, readArchiveDigest } from '../images/digests.ts';
import { ReleaseError } from '../settings/error.ts';

/** Where steps write, in the folder of the release: one that was killed leaves what it had begun in nothing that is summed up. */
const draftName = '.draft';

/**
 * Runs the named steps, all when none is named, and sums up everything in the folder. Answers a line for each file, with its
 * size and an image's digest. A release of all steps takes away what an earlier one left there. Where a step fails, the folder stays as
 * it was. Where a program is missing, steps without a name that need it are left out, and said; unless the release has to be whole.
 * @throws ReleaseError that says which program a named step lacks.
 */
export async function makeRelease(
  release: Release,
  names: readonly string[],
  isWhole = false,
): Promise<string> {
  const { output } = release;
  const asked = steps.filter(({ name }) => names.length === 0 || names.includes(name));
  const { possible: chosen, left } = dividePossible(asked);
  if (left.length > 0 && (isWhole || names.length > 0)) throw new ReleaseError(left.join('\n'));
  const draft = join(output, draftName);
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  try {
    const files = await runSteps(chosen, {
      ...release,
      output: draft,
      kept: names.length === 0 ? null : output,
    });
    if (names.length === 0)
      for (const name of listSummed(output)) rmSync(join(output, name), { force: true });
    publish(draft, output);
    signSums(release, output);
    for (const line of left) release.say(`left out: ${line}`);
    return files.map((file) => `${describeFile(output, file)}\n`).join('');
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/** The sums come first: where this is cut short, they fit nothing, and the next whole release knows what is to go. */
function publish(draft: string, output: string): void {
  writeSums(output, draft);
  for (const name of listFiles(draft)) renameSync(join(draft, name), join(output, name));
}

async function runSteps(chosen: readonly Step[], release: Release): Promise<readonly string[]> {
  const made = new Map<string, string>();
  for (const step of chosen) {
    for (const file of await runStep(step, release)) {
      const other = made.get(file);
      if (other !== undefined) throw new ReleaseError(`both steps ${other} and ${step.name} make ${file}`);
      made.set(file, step.name);
    }
  }
  return [...made.keys()];
}

async function runStep({ name, make }: Step, release: Release): Promise<readonly string[]> {
  const started = performance.now();
  const files = await make(release);
  release.say(`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
  return files;
}

function describeFile(folder: string, file: string): string {
  const path = join(folder, file);
  return `${describeSize(path)}  ${file}${isImageArchive(file) ? `  ${readArchiveDigest(path)}` : ''}`;
}

function describeSize(path: string): string {
  const { size } = statSync(path);
  const text = size < 1e5 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
  return text.padStart(9);
}

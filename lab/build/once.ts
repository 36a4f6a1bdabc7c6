import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { componentFolder } from '../settings/folders.ts';

/** What is built once, and kept. */
export interface Component {
  /** The name of its folder, with all that it depends on. */
  readonly label: string;
  /** Its programs, for whoever watches. */
  readonly programs: readonly string[];
}

/**
 * Fills the folder of a component, if it is not there yet. `fill` works in a folder of its own, and leaves in `bin` what is kept. The
 * component's folder appears whole or not at all: a build that was interrupted leaves none. `say` gets a line for a build.
 */
export async function buildOnce(
  { label, programs }: Component,
  say: (line: string) => void,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  const target = join(componentFolder, label);
  if (existsSync(target)) return;
  say(`building ${label}: ${programs.join(', ')}`);
  mkdirSync(componentFolder, { recursive: true });
  const folder = mkdtempSync(join(componentFolder, '.building-'));
  const remove = () => {
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', remove);
  try {
    await fill(folder);
    // Another lab may have built the same meanwhile.
    if (!existsSync(target)) renameSync(join(folder, 'bin'), target);
  } finally {
    remove();
    process.off('exit', remove);
  }
}

import { join } from 'node:path';
import { componentFolder, sharedComponentFolder } from '../settings/folders.ts';
import {
  existsSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  readdirSync,
  renameSync,
  readFileSync,
} from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createHash } from 'node:crypto';

/** What is built once, and kept. */
export interface Component {
  /** The name of its folder, with all that it depends on. */
  readonly label: string;
  /** Its programs, for whoever watches. */
  readonly programs: readonly string[];
}

/**
 * Fills the folder of a component, if it is not there yet: from another checkout's build with the same recipe, or by `fill`, which
 * works in a folder of its own and leaves in `bin` what is kept. The component's folder appears whole or not at all: a build that was
 * interrupted leaves none. `say` gets a line for a build.
 */
export async function buildOnce(
  { label, programs }: Component,
  say: (line: string) => void,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  const target = join(componentFolder, label);
  if (existsSync(target)) return;
  const shared = join(sharedComponentFolder, `${label}-${sumRecipes()}`);
  if (existsSync(shared)) {
    place(target, (folder) => {
      cpSync(shared, folder, { recursive: true });
    });
    return;
  }
  say(`building ${label}: ${programs.join(', ')}`);
  mkdirSync(componentFolder, { recursive: true });
  const folder = mkdtempSync(join(componentFolder, '.building-'));
  const remove = () => {
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', remove);
  try {
    await fill(folder);
    // One recipe of each is kept.
    for (const former of listFormer(label)) rmSync(former, { recursive: true, force: true });
    for (const kept of [shared, target]) {
      place(kept, (temporary) => {
        cpSync(join(folder, 'bin'), temporary, { recursive: true });
      });
    }
  } finally {
    remove();
    process.off('exit', remove);
  }
}

/** Shared builds of a component, which another recipe made. */
function listFormer(label: string): string[] {
  const names = existsSync(sharedComponentFolder) ? readdirSync(sharedComponentFolder) : [];
  const isFormer = (name: string) => name.startsWith(`${label}-`) && name.length === label.length + 17;
  return names.filter(isFormer).map((name) => join(sharedComponentFolder, name));
}

/** Makes a folder that appears whole or not at all, unless another process makes the same meanwhile. */
function place(target: string, fill: (folder: string) => void): void {
  const parent = join(target, '..');
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, '.placing-'));
  try {
    const inner = join(folder, 'whole');
    fill(inner);
    if (!existsSync(target)) renameSync(inner, target);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The sum of all files that say how something is built: other ones build anew. */
function sumRecipes(): string {
  const recipes = fileURLToPath(new URL('.', import.meta.url));
  const sum = createHash('sha256');
  for (const name of readdirSync(recipes).sort()) sum.update(name).update(readFileSync(join(recipes, name)));
  return sum.digest('hex').slice(0, 16);
}

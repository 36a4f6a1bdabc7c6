import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';

/** Puts programs of this machine into a folder that is the whole PATH of a script; their names are words. */
export async function linkPrograms(folder: string, names: string): Promise<void> {
  for (const name of names.split(' ')) {
    const { stdout } = await execa('sh', ['-c', `command -v ${name}`]);
    symlinkSync(stdout, join(folder, name));
  }
}

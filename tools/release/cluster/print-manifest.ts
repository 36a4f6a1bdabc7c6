import type { Release } from '../settings/release.ts';
import { join } from 'node:path';
import { execa } from 'execa';

/** What `vipnat manifest` of this release prints. */
export async function printManifest({ root }: Release, words: readonly string[]): Promise<string> {
  const command = [join(root, 'dist/vipnat.js'), 'manifest', ...words];
  const options = { stripFinalNewline: false, env: {}, extendEnv: false } as const;
  return (await execa(join(root, 'node_modules/.bin/node'), command, options)).stdout;
}

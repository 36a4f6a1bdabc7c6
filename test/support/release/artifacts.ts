import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { execa } from 'execa';
import { readdirSync } from 'node:fs';

/** Node.js and Go modules from registries, when nothing is there yet. */
export const releaseLimitMs = 600_000;

/** What these tests try. The images take minutes to build. */
export const steps = 'npm executable packages sbom vex chart install licenses notes'.split(' ');

/** The time that all files are to have, whatever the commit's is. */
export const releaseEnvironment = { SOURCE_DATE_EPOCH: '1767225600' };

const output = join(rootFolder, '.cache/release/tested');

/** Everything that a release is made of. */
const sources = [
  ...['dist', 'docs', 'tools/lab/build', 'manifests', 'package.json', 'tools/release'],
  ...['CHANGELOG.md', 'README.md', 'SECURITY.md'],
];

/** The folder with a release of this checkout, made by `scripts/release` where none is as new. */
export async function makeArtifacts(): Promise<string> {
  // One at a time; whoever waits finds it made.
  const script = `mkdir -p "$0"; exec 9>"$0.lock"; flock 9
    [ -e "$0/SHA256SUMS" ] && [ -z "$(find ${sources.join(' ')} -newer "$0/SHA256SUMS" -print -quit)" ] ||
      scripts/release --output "$0" ${steps.join(' ')}`;
  await execa('scripts/build', { cwd: rootFolder });
  await execa('bash', ['-euc', script, output], { cwd: rootFolder, env: releaseEnvironment });
  return output;
}

/** The path of the one artifact whose name matches. */
export function findArtifact(folder: string, name: RegExp): string {
  const found = readdirSync(folder).filter((file) => name.test(file));
  const [file] = found;
  if (file === undefined || found.length > 1) throw new Error(`${name.source} is ${found.join(', ')}`);
  return join(folder, file);
}

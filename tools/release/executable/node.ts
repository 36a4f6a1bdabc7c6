import type { Architecture, Release } from '../settings/release.ts';
import { join } from 'node:path';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, readFileSync } from 'node:fs';
import { ReleaseError } from '../settings/error.ts';
import { execa } from 'execa';
import { createHash } from 'node:crypto';

/** npm's names of processors. */
export const architectureToNode: Readonly<Record<Architecture, string>> = { amd64: 'x64', arm64: 'arm64' };

/**
 * The folder of the package with the pinned Node.js for a processor, whichever this machine has: downloaded once, and taken
 * only with the checksum of package-lock.json. Has bin/node, LICENSE and package.json.
 * @throws ReleaseError when it cannot be had, or is another.
 */
export async function provideNode({ root, say }: Release, architecture: Architecture): Promise<string> {
  const name = `node-linux-${architectureToNode[architecture]}`;
  const { version, integrity } = readLocked(root, name);
  const cache = join(root, '.cache/release');
  const target = join(cache, `${name}-${version}`);
  if (existsSync(target)) return target;
  say(`downloading ${name} ${version}`);
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, '.node-'));
  try {
    await download(`${name}@${version}`, folder);
    await unpack(join(folder, `${name}-${version}.tgz`), integrity);
    // Another release may have done the same meanwhile.
    if (!existsSync(target)) renameSync(join(folder, 'package'), target);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return target;
}

interface LockedPackage {
  readonly version: string;
  readonly integrity: string;
}

function readLocked(root: string, name: string): LockedPackage {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, LockedPackage>>;
  };
  const locked = packages[`node_modules/${name}`];
  if (locked === undefined) throw new ReleaseError(`package-lock.json has no ${name}: npm install ${name}`);
  return locked;
}

async function download(spec: string, folder: string): Promise<void> {
  const { exitCode, stderr } = await execa('npm', ['pack', '--silent', '--pack-destination', folder, spec], {
    reject: false,
  });
  if (exitCode !== 0) throw new ReleaseError(`npm pack ${spec} failed:\n${stderr}`);
}

async function unpack(tarball: string, integrity: string): Promise<void> {
  const sum = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;
  if (sum !== integrity) {
    throw new ReleaseError(
      `the checksum of ${tarball} differs from package-lock.json: ${sum} instead of ${integrity}`,
    );
  }
  await execa('tar', ['--extract', '--gzip', '--file', tarball, '--directory', join(tarball, '..')]);
}

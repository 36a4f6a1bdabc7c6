import type { Release } from '../settings/release.ts';
import type { Image } from '../settings/image-names.ts';
import { execa } from 'execa';
import { mkdtempSync, writeFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';

/** As the Dockerfiles ask for it, and scripts/sbom.mjs reads it. */
export const packageFormat =
  '${Package}\\t${Version}\\t${Architecture}\\t${source:Package}\\t${source:Version}\\n';

/**
 * What an image that buildah has built is made of, as CycloneDX: read out of the image itself, so that it is of these bytes and no
 * others. vipnat's has its own.
 */
export async function readImageSbom(release: Release, image: Image, name: string): Promise<string> {
  const { stdout: container } = await execa('buildah', ['from', '--pull-never', name]);
  try {
    if (image === 'vipnat') return (await runIn(container, ['cat', '/opt/vipnat/sbom.json'])).toString();
    return await describePackages(release, image, container);
  } finally {
    await execa('buildah', ['rm', container]);
  }
}

async function describePackages({ root }: Release, image: Image, container: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-sbom-'));
  try {
    const packages = await runIn(container, ['dpkg-query', '--show', '--showformat', packageFormat]);
    writeFileSync(join(folder, 'packages'), packages);
    writeFileSync(join(folder, 'os-release'), await runIn(container, ['cat', '/usr/lib/os-release']));
    mkdirSync(join(folder, 'doc'));
    const input = await runIn(container, ['tar', '--create', '--directory=/usr/share/doc', '.']);
    await execa('tar', ['--extract', '--directory', join(folder, 'doc')], { input });
    const words = [join(root, 'scripts/sbom.mjs'), folder, image];
    const options = { cwd: root, stripFinalNewline: false } as const;
    return (await execa(join(root, 'node_modules/.bin/node'), words, options)).stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What a program in a container prints. */
async function runIn(container: string, command: readonly string[]): Promise<Buffer> {
  const options = { encoding: 'buffer', stripFinalNewline: false, maxBuffer: 2 ** 30 } as const;
  return Buffer.from((await execa('buildah', ['run', container, '--', ...command], options)).stdout);
}

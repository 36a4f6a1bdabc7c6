import { type Release, type Architecture, architectures, readRepository } from '../settings/release.ts';
import { type Image, images, readImageName } from '../settings/image-names.ts';
import { mkdtempSync, writeFileSync, rmSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { readImageSbom } from './image-sbom.ts';
import { architectureToNode } from '../executable/node.ts';
import { ReleaseError } from '../settings/error.ts';
import { execa } from 'execa';
import { removeStageIds } from './history.ts';
import { packTar } from '../settings/pack.ts';

/** The name of an image's archive, without what it ends with. */
export function nameImageArchive(
  { version }: Pick<Release, 'version'>,
  image: Image,
  architecture: Architecture,
): string {
  const name = image === 'vipnat' ? 'vipnat-image' : `vipnat-${image}-image`;
  return `${name}-${version}-linux-${architecture}`;
}

/**
 * Builds both images for this machine's processor, and writes each as an OCI archive with its SBOM. RELEASE_BASE and
 * RELEASE_BUILDER name other images to build on than those of the Dockerfiles.
 *
 * What their bytes depend on beside the checkout: the versions of Debian's packages at that time, which the SBOM has, and
 * buildah's, which compresses the layers.
 */
export async function makeImages(release: Release): Promise<readonly string[]> {
  // Without a runtime, control groups and networks of its own, which a container or a builder's machine may not have.
  process.env['BUILDAH_ISOLATION'] ??= 'chroot';
  const names: string[] = [];
  for (const image of images) names.push(...(await makeImage(release, image)));
  return names;
}

async function makeImage(release: Release, image: Image): Promise<readonly string[]> {
  const name = nameImageArchive(release, image, findArchitecture());
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-image-'));
  try {
    const whole = nameWhole(release, image);
    await build(release, image);
    await writeArchive(release, whole, join(folder, 'image.tar'));
    writeFileSync(join(folder, 'sbom.json'), await readImageSbom(release, image, whole));
    await move(join(folder, 'image.tar'), join(release.output, `${name}.tar`));
    await move(join(folder, 'sbom.json'), join(release.output, `${name}.cdx.json`));
  } finally {
    rmSync(folder, { recursive: true });
  }
  return [`${name}.tar`, `${name}.cdx.json`];
}

function nameWhole(release: Release, image: Image): string {
  const { repository, tag } = readImageName(release, image);
  return `${repository}:${tag}`;
}

function findArchitecture(): Architecture {
  const architecture = architectures.find((each) => architectureToNode[each] === process.arch);
  if (architecture === undefined)
    throw new ReleaseError(`scripts/release cannot make an image on a processor of type ${process.arch}`);
  return architecture;
}

const wayOut =
  'The build pulls its base images from their registry, and packages from Debian and npm. RELEASE_BASE and RELEASE_BUILDER name other base images.';

/** By buildah, which other than docker's daemon sets the time of every file. */
async function build({ root, epoch }: Release, image: Image): Promise<void> {
  const source = readRepository();
  const { RELEASE_BASE: base = '', RELEASE_BUILDER: builder = '' } = process.env;
  const words = [
    ...(image === 'vipnat' ? [] : [image]),
    ...['--tool', 'buildah'],
    ...(base === '' ? [] : ['--base', base]),
    // keepalived's is made of Debian alone.
    ...(builder === '' || image !== 'vipnat' ? [] : ['--builder', builder]),
    // Without buildah's version among the labels.
    ...['--', '--identity-label=false'],
    // By it, a forge knows whose image this is.
    ...(source === null ? [] : ['--label', `org.opencontainers.image.source=${source}`]),
  ];
  const env = { SOURCE_DATE_EPOCH: String(epoch) };
  const { exitCode, stderr } = await execa(join(root, 'scripts/image'), words, { env, reject: false });
  if (exitCode !== 0)
    throw new ReleaseError(`scripts/image ${words.join(' ')} failed:\n${lastLines(stderr)}\n${wayOut}`);
}

/**
 * Writes an image that buildah has, as an OCI archive. Its name is in the archive: whoever loads it has the image by this name.
 * `env` is what buildah gets beside this process's environment.
 * @throws ReleaseError when buildah has no such image.
 */
export async function writeArchive(
  release: Pick<Release, 'epoch'>,
  name: string,
  target: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const layout = `${target}.layout`;
  const words = ['push', '--quiet', '--format', 'oci', name, `oci:${layout}:${name}`];
  try {
    const { exitCode, stderr } = await execa('buildah', words, { env, reject: false });
    if (exitCode !== 0) throw new ReleaseError(`buildah ${words.join(' ')} failed:\n${lastLines(stderr)}`);
    removeStageIds(layout);
    writeFileSync(target, await packTar(release, layout, ['blobs', 'index.json', 'oci-layout']));
  } finally {
    rmSync(layout, { recursive: true, force: true });
  }
}

/** In one step where both are on one file system: whoever reads the one of before keeps it. */
async function move(from: string, to: string): Promise<void> {
  try {
    renameSync(from, to);
  } catch {
    await execa('mv', ['--force', from, to]);
  }
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-20).join('\n');
}

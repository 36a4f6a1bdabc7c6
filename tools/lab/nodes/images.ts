import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { rootFolder } from '../settings/folders.ts';
import {
  prepareBases,
  buildImage,
  buildKeepalivedImage,
  type Bases,
} from '../../../test/support/image/build.ts';
import {
  existsSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
  readdirSync,
  mkdirSync,
  renameSync,
  statSync,
} from 'node:fs';
import { execa } from 'execa';

const fromHere = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** Holds a pod's namespaces. The programs of the control plane, which need nothing beside them, run on it too. */
export const pauseImage = 'localhost/vipnat-lab/pause:1';

/** How containerd lays out images: without overlays, whole copies. */
export type Snapshotter = 'overlayfs' | 'native';

/** What every node finds on its disk: all images, imported. */
export interface ImageTemplate {
  /** containerd's root. */
  readonly folder: string;
  readonly snapshotter: Snapshotter;
}

/** That of the nodes of a cluster. */
export interface ClusterTemplate extends ImageTemplate {
  /** vipnat's image by the name that the manifests have. */
  readonly vipnat: string;
}

/** Longer than the start of another lab takes, which may be copying. */
const keptMs = 10 * 60_000;

const templates = join(rootFolder, '.cache/lab/images');

/** Builds what is not built yet, and imports it once for all nodes and labs. `say` gets a line for what takes long. */
export async function prepareImages(say: (line: string) => void): Promise<ClusterTemplate> {
  say('building the images of vipnat, keepalived and pause, where they are not there yet');
  const bases = await prepareBases();
  const { name: vipnat } = await buildImage();
  await buildPause(bases);
  const keepalived = await buildKeepalivedImage();
  return { ...(await importImages([pauseImage, keepalived, vipnat], bases)), vipnat };
}

/** Imports built images once for all nodes and labs. */
export async function importImages(images: readonly string[], bases: Bases): Promise<ImageTemplate> {
  const ids = await Promise.all(images.map((image) => findId(image, bases)));
  const key = ids.map((id) => id.slice(0, 12)).join('-');
  const snapshotter = bases.store.driver === 'overlay' ? 'overlayfs' : 'native';
  const folder = join(templates, key);
  if (!existsSync(folder)) await fillTemplate(folder, { images, snapshotter, bases });
  return { folder, snapshotter };
}

/** Builds pauseImage. */
export async function buildPause({ env }: Bases): Promise<void> {
  const folder = mkdtempSync(join(rootFolder, '.cache/image/pause.'));
  try {
    const output = [
      'build',
      '-trimpath',
      '-buildvcs=false',
      '-ldflags',
      '-s -w',
      '-o',
      join(folder, 'pause'),
    ];
    const goEnv = { CGO_ENABLED: '0', GOFLAGS: '', GO111MODULE: 'off' };
    await execa('go', [...output, fromHere('pause.go')], { env: goEnv });
    const file = 'FROM scratch\nCOPY pause /\nENTRYPOINT ["/pause"]\n';
    await build(pauseImage, folder, file, env);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Builds an image from a Containerfile's text and a folder with what it copies. */
export async function build(name: string, folder: string, file: string, env: Bases['env']): Promise<void> {
  const own = mkdtempSync(join(rootFolder, '.cache/image/file.'));
  try {
    const path = join(own, 'Containerfile');
    writeFileSync(path, file);
    const flags = ['build', '--layers', '--timestamp', '0', '--tag', name, '--file', path];
    await execa('buildah', [...flags, folder], { env });
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

async function findId(image: string, { env }: Bases): Promise<string> {
  return (await execa('buildah', ['images', '--quiet', '--no-trunc', image], { env })).stdout.replace(
    'sha256:',
    '',
  );
}

/** It appears whole or not at all. Those of other images go: a lab that is up has links of its own. */
async function fillTemplate(
  target: string,
  { images, snapshotter, bases }: { images: readonly string[]; snapshotter: Snapshotter; bases: Bases },
): Promise<void> {
  const before = existsSync(templates) ? readdirSync(templates) : [];
  mkdirSync(templates, { recursive: true });
  const folder = mkdtempSync(join(templates, '.filling-'));
  try {
    const archives = await Promise.all(
      images.map(async (image, index) => {
        const archive = join(folder, `${index}.tar`);
        await execa('buildah', ['push', image, `docker-archive:${archive}:${image}`], { env: bases.env });
        return archive;
      }),
    );
    const apart = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    await execa('unshare', [...apart, fromHere('template'), join(folder, 'root'), snapshotter, ...archives]);
    if (!existsSync(target)) renameSync(join(folder, 'root'), target);
    for (const name of before.filter(isOld)) rmSync(join(templates, name), { recursive: true, force: true });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Nobody copies from it any more. */
function isOld(name: string): boolean {
  return Date.now() - statSync(join(templates, name)).ctimeMs > keptMs;
}

/** What containerd writes to while it runs; all else is added or removed as whole files. */
const databases = [
  'io.containerd.metadata.v1.bolt/meta.db',
  'io.containerd.snapshotter.v1.overlayfs/metadata.db',
  'io.containerd.snapshotter.v1.native/metadata.db',
];

/** Puts the images on a node's disk: as links, but for what is written to. */
export async function copyImages({ folder }: ImageTemplate, root: string): Promise<void> {
  mkdirSync(join(root, '..'), { recursive: true });
  await execa('cp', ['--archive', '--link', folder, root]);
  for (const name of databases.filter((database) => existsSync(join(folder, database)))) {
    await execa('cp', ['--remove-destination', join(folder, name), join(root, name)]);
  }
}

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll } from '@jest/globals';
import { execa } from 'execa';
import { rootFolder } from '../../../lab/settings/folders.ts';

/** A base, packages from two registries and a build, when nothing is there yet. */
const buildLimitMs = 10 * 60_000;

const folder = join(rootFolder, '.cache/image');

/** Where built images are, apart from those of whoever runs the tests. */
export interface ImageStore {
  /** A folder that podman and buildah can take for their graph root. */
  readonly folder: string;
  readonly driver: 'overlay' | 'vfs';
}

/** What `scripts/image` made. */
export interface BuiltImage {
  readonly store: ImageStore;
  /** As the manifests name it. */
  readonly name: string;
  /** The file of `--sbom`. */
  readonly sbom: string;
  /** Its line on standard output. */
  readonly report: string;
}

/** The image as `scripts/image` builds it with buildah, before the first test of a file. Later builds take seconds. */
export function useImage(): () => BuiltImage {
  let image: BuiltImage | undefined;
  beforeAll(async () => {
    const started = performance.now();
    image = await buildImage();
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    process.stderr.write(`${image.report}, after ${seconds} s\n`);
  }, buildLimitMs);
  return () => {
    if (image === undefined) throw new Error('the image was not built');
    return image;
  };
}

async function buildImage(): Promise<BuiltImage> {
  const { store, env, base, builder } = await prepareBases();
  const sbom = join(folder, 'sbom.json');
  const words = ['--tool', 'buildah', '--base', base, '--builder', builder, '--sbom', sbom];
  const { stdout: report } = await execa(join(rootFolder, 'scripts/image'), words, { env });
  const [, name = ''] = /^(\S+): /.exec(report) ?? [];
  return { store, name, sbom, report };
}

/** The images to build on, and what buildah needs to find them. */
export interface Bases {
  readonly store: ImageStore;
  readonly env: Readonly<Record<string, string>>;
  /** A slim Debian. */
  readonly base: string;
  /** The same with Node.js and npm. */
  readonly builder: string;
}

/** Makes the images to build on, where they are not there yet. */
export async function prepareBases(): Promise<Bases> {
  mkdirSync(folder, { recursive: true });
  const store = { folder: join(folder, 'storage'), driver: await findDriver() } as const;
  const configuration = join(folder, 'storage.conf');
  writeFileSync(configuration, toStorageConfiguration({ ...store, runFolder: join(folder, 'run') }));
  const env = {
    CONTAINERS_STORAGE_CONF: configuration,
    // No bridge and no rules on this machine's own network, and no runtime that asks for its control groups.
    BUILDAH_ISOLATION: 'chroot',
  };
  const { stdout } = await execa(join(rootFolder, 'test/cluster/image/bases'), { env });
  const [base = '', builder = ''] = stdout.split(' ');
  return { store, env, base, builder };
}

/** Where / is an overlay itself, as in most containers, there can be no other on it. */
async function findDriver(): Promise<ImageStore['driver']> {
  const script =
    'mkdir -p lower upper work merged && mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work merged';
  const trial = join(folder, 'overlay');
  mkdirSync(trial, { recursive: true });
  const { exitCode } = await execa('unshare', ['--mount', 'sh', '-c', script], { cwd: trial, reject: false });
  return exitCode === 0 ? 'overlay' : 'vfs';
}

/** What CONTAINERS_STORAGE_CONF is to name: where images and containers are kept; `images`, when given, is a store of more images that is only read. */
export function toStorageConfiguration(place: {
  readonly folder: string;
  readonly runFolder: string;
  readonly driver: ImageStore['driver'];
  readonly images?: string;
}): string {
  const { folder: graph, runFolder, driver, images } = place;
  return [
    '[storage]',
    `driver = "${driver}"`,
    `graphroot = "${graph}"`,
    `runroot = "${runFolder}"`,
    ...(images === undefined ? [] : ['[storage.options]', `additionalimagestores = ["${images}"]`]),
    '',
  ].join('\n');
}

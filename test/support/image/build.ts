import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { execa } from 'execa';
import { mkdirSync, writeFileSync } from 'node:fs';

const folder = join(rootFolder, '.cache/image');

/** Where built images are, apart from those of whoever runs the tests. */
interface ImageStore {
  /** A folder that podman and buildah can take for their graph root. */
  readonly folder: string;
  readonly driver: 'overlay' | 'vfs';
}

export interface BuiltImage {
  readonly store: ImageStore;
  /** As the manifests name it. */
  readonly name: string;
  readonly sbom: string;
  /** Its line on standard output. */
  readonly report: string;
}

/** The image as `scripts/image` builds it with buildah; once for all who ask at the same time. Later builds take seconds. */
export async function buildImage(): Promise<BuiltImage> {
  const bases = await prepareBases();
  const sbom = join(folder, 'sbom.json');
  const report = await runScript([], bases, ['--builder', bases.builder, '--sbom', sbom]);
  return { store: bases.store, name: readName(report), sbom, report };
}

/** keepalived's image, as `scripts/image keepalived` builds it. Answers its name. */
export async function buildKeepalivedImage(): Promise<string> {
  return readName(await runScript(['keepalived'], await prepareBases(), []));
}

/** Answers its line on standard output. */
async function runScript(
  kind: readonly string[],
  { env, base }: Bases,
  more: readonly string[],
): Promise<string> {
  const command = [...kind, '--tool', 'buildah', '--base', base, ...more];
  const lock = join(folder, 'build.lock');
  return (await execa('flock', [lock, join(rootFolder, 'scripts/image'), ...command], { env })).stdout;
}

function readName(report: string): string {
  return /^(\S+): /.exec(report)?.[1] ?? '';
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
  const { stdout } = await execa(join(rootFolder, 'test/support/image/bases'), { env });
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

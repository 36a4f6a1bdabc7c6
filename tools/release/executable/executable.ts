import { type Release, type Architecture, architectures } from '../settings/release.ts';
import { provideNode, architectureToNode } from './node.ts';
import {
  mkdtempSync,
  copyFileSync,
  chmodSync,
  rmSync,
  writeFileSync,
  readdirSync,
  existsSync,
} from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { execa } from 'execa';

/** The word that Node.js looks for in its own file: behind it stands 0, and 1 in an executable with a script of its own. */
export const sentinelFuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** The name of the executable for a processor. */
export function nameExecutable({ version }: Release, architecture: Architecture): string {
  return `vipnat-${version}-linux-${architecture}`;
}

/** Releases to their executables: packages have them too. */
const releaseToMade = new WeakMap<Release, Promise<readonly string[]>>();

/** Makes a file for each processor that runs alone: the pinned Node.js with dist/ in it. Once for each release. */
export async function makeExecutables(release: Release): Promise<readonly string[]> {
  const made =
    releaseToMade.get(release) ??
    Promise.all(architectures.map((architecture) => makeExecutable(release, architecture)));
  releaseToMade.set(release, made);
  return await made;
}

async function makeExecutable(release: Release, architecture: Architecture): Promise<string> {
  const node = await provideNode(release, architecture);
  const name = nameExecutable(release, architecture);
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-executable-'));
  try {
    const program = join(folder, name);
    await makeBlob(release, architecture, folder);
    copyFileSync(join(node, 'bin/node'), program);
    await inject(release, program, join(folder, blobFile));
    chmodSync(program, 0o755);
    // In one step: whoever runs the one of before keeps it.
    await execa('mv', ['--force', program, join(release.output, name)]);
  } finally {
    rmSync(folder, { recursive: true });
  }
  return name;
}

const blobFile = 'vipnat.blob';

/** The blob keeps the path of its main script: a relative one is the same everywhere. */
async function makeBlob({ root }: Release, architecture: Architecture, folder: string): Promise<void> {
  copyFileSync(join(root, 'tools/release/executable/entry.cjs'), join(folder, 'entry.cjs'));
  const config = {
    main: 'entry.cjs',
    output: blobFile,
    disableExperimentalSEAWarning: true,
    // NODE_OPTIONS of a shell is for its own programs.
    execArgvExtension: 'none',
    assets: listAssets(join(root, 'dist'), architecture),
  };
  writeFileSync(join(folder, 'sea.json'), JSON.stringify(config));
  await execa(join(root, 'node_modules/.bin/node'), ['--experimental-sea-config', 'sea.json'], {
    cwd: folder,
  });
}

/** The names by which entry.cjs finds dist/'s files. */
function listAssets(dist: string, architecture: Architecture): Readonly<Record<string, string>> {
  const vendor = readdirSync(join(dist, 'vendor')).filter((name) => name !== 'native.js');
  const nodeArchitecture = architectureToNode[architecture];
  // What V8 made of the program is for the processor that it was made on.
  const code = join(dist, 'program.js.code');
  const hasCode = nodeArchitecture === process.arch && existsSync(code);
  return {
    'program.js': join(dist, 'program.js'),
    ...(hasCode && { 'program.js.code': code }),
    ...Object.fromEntries(vendor.sort().map((name) => [`vendor/${name}`, join(dist, 'vendor', name)])),
    'native.node': join(dist, `prebuilds/linux-${nodeArchitecture}/node.napi.node`),
  };
}

/** In a process of its own: what it prints warns of sections that it does not touch. */
async function inject({ root }: Release, program: string, blob: string): Promise<void> {
  await execa(join(root, 'node_modules/.bin/node'), [
    join(root, 'node_modules/postject/dist/cli.js'),
    program,
    'NODE_SEA_BLOB',
    blob,
    '--sentinel-fuse',
    sentinelFuse,
  ]);
}

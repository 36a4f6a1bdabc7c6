import { type Release, readRepository } from '../settings/release.ts';
import { mkdtempSync, cpSync, rmSync, writeFileSync, readFileSync } from 'node:fs';
import { join, delimiter } from 'node:path';
import { tmpdir } from 'node:os';
import { renderBundledLicenses } from '../documents/licenses.ts';
import { nameImage } from '../cluster/chart.ts';
import { fillPapers, readPaperNames } from '../documents/papers.ts';
import { execa } from 'execa';
import { ReleaseError } from '../settings/error.ts';

/** What the package has besides its package.json and the licenses of others. */
const files = ['dist', 'docs', 'manifests', 'CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md'];

/** Fields of package.json that are of use to whoever installs it. */
const fields = ['name', 'version', 'description', 'license', 'bin', 'engines'];

/** Makes the package for npm's registry. It depends on no other package: dist/ has them all. */
export async function makeNpmTarball(release: Release): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-npm-'));
  try {
    for (const name of files) cpSync(join(release.root, name), join(folder, name), { recursive: true });
    const names = readPaperNames(release);
    fillPapers(folder, names);
    nameImage(join(folder, 'manifests/chart'), names);
    // For one version of V8 and one processor, and whoever installs this has any.
    rmSync(join(folder, 'dist/program.js.code'), { force: true });
    writeFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), renderBundledLicenses(release));
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(toPublished(release), null, 2)}\n`);
    // npm keeps the modes, which this machine's umask had a part in.
    await execa('chmod', ['--recursive', 'u=rwX,go=rX', folder]);
    return [await pack(release, folder)];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** package.json as it is published. Where RELEASE_REPOSITORY names the sources, npm can say which commit it was built of. */
function toPublished({ root, version }: Release): object {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, unknown>;
  const url = readRepository();
  return {
    ...Object.fromEntries(fields.map((field) => [field, manifest[field]])),
    // Those that netlink's native part is there for.
    cpu: ['x64', 'arm64'],
    ...(url !== null && { repository: { type: 'git', url } }),
    // npm gives everybody what has the tag `latest`, so an early version needs another one.
    publishConfig: { access: 'public', ...(version.includes('-') && { tag: 'next' }) },
  };
}

async function pack({ root, output }: Release, folder: string): Promise<string> {
  // With the pinned Node.js, whose zlib is the same everywhere.
  const path = [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter);
  const words = ['pack', '--silent', '--ignore-scripts', '--pack-destination', output];
  const { exitCode, stdout, stderr } = await execa('npm', words, {
    cwd: folder,
    env: { PATH: path },
    reject: false,
  });
  if (exitCode !== 0) throw new ReleaseError(`npm pack failed:\n${stderr}`);
  return stdout.trim();
}

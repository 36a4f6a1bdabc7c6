import { productFolders } from '../../../tools/lab/settings/folders.ts';
import { mkdtempSync, cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { locateNfpm } from '../../../tools/lab/build/build.ts';
import { execa } from 'execa';

/** What a release is made of: what git has, without what only tests need. */
const folders = [...productFolders, 'docs', 'manifests', 'scripts', 'tools'];
const files = [
  ...'package.json package-lock.json tsconfig.json CHANGELOG.md LICENSE README.md SECURITY.md'.split(' '),
  ...['Dockerfile', 'Dockerfile.keepalived', '.dockerignore'],
];

/**
 * Copies the checkout, and what is downloaded or built once, by real paths of their own as in another checkout. Answers the
 * folder, which whoever asks removes. To be called when a release was made here: that downloads and builds.
 */
export async function copyCheckout(): Promise<string> {
  const elsewhere = mkdtempSync('.cache/release-elsewhere-');
  for (const name of [...folders, ...files]) cpSync(name, join(elsewhere, name), { recursive: true });
  mkdirSync(join(elsewhere, '.cache/lab/components'), { recursive: true });
  mkdirSync(join(elsewhere, '.cache/release'));
  const [nfpm, cache] = [join(locateNfpm(), '..'), '.cache/release'];
  await execa('cp', ['-al', 'node_modules', elsewhere]);
  await execa('cp', ['-al', nfpm, join(elsewhere, '.cache/lab/components')]);
  await execa('bash', ['-c', `cp -al ${cache}/node-linux-* ${join(elsewhere, cache)}`]);
  return elsewhere;
}

/** How somebody elsewhere differs from whoever runs the tests; the umask comes by makeElsewhere. */
const otherHabits = { TZ: 'Asia/Tokyo', LANG: 'tr_TR.UTF-8', LC_ALL: 'C.UTF-8' };

/** Makes these steps of a release in such a folder, with another umask, time zone and language. Answers the folder with the files. */
export async function makeElsewhere(
  elsewhere: string,
  steps: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<string> {
  await execa('sh', ['-c', `umask 077; exec scripts/release --output made ${steps.join(' ')}`], {
    cwd: elsewhere,
    env: { ...environment, ...otherHabits },
  });
  return join(elsewhere, 'made');
}

import { productFolders } from '../../tools/lab/settings/folders.ts';
import { jest, beforeAll, afterAll, test, expect } from '@jest/globals';
import { mkdirSync, mkdtempSync, cpSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { version, ownImages } from '../support/manifest/printing.ts';

/** What a build is made from; the packages beside it. */
const sources = [...productFolders, 'scripts', 'package.json', 'package-lock.json', 'tsconfig.json'];

jest.setTimeout(120_000);

let folder = '';
beforeAll(async () => {
  mkdirSync('.cache', { recursive: true });
  folder = mkdtempSync('.cache/elsewhere-');
  for (const name of sources) cpSync(name, join(folder, name), { recursive: true });
  // By real paths of its own, as in another checkout.
  await execa('cp', ['-al', 'node_modules', folder]);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

test('a build elsewhere, later, with another umask, time zone and language has the same bytes and modes', async () => {
  const { stdout: here } = await execa('scripts/build', ['--hash']);
  const { stdout: there } = await execa('sh', ['-c', 'umask 077; exec scripts/build --hash'], {
    cwd: folder,
    env: { TZ: 'Asia/Tokyo', LANG: 'tr_TR.UTF-8', LC_ALL: 'C.UTF-8', HOME: '/nonexistent' },
  });
  expect(here).toMatch(/^[0-9a-f]{64}$/);
  expect(there).toBe(here);
  process.stderr.write(`scripts/build --hash: ${here}\n`);
});

test.each(productFolders)('a change in %s is built, and the same sources not again', async (changed) => {
  const build = async () => {
    await execa('scripts/build', [], { cwd: folder });
    return statSync(join(folder, 'dist')).ino;
  };
  const before = await build();
  expect(await build()).toBe(before);
  utimesSync(join(folder, changed), new Date(), new Date());
  expect(await build()).not.toBe(before);
});

test('a build for another registry prints manifests with that name, and the next one without it the default again', async () => {
  const printImages = async (env: Readonly<Record<string, string>>) => {
    await execa('scripts/build', [], { cwd: folder, env });
    const words = ['manifest', 'keepalived', '--vip', '10.0.0.50'];
    const { stdout } = await execa('node_modules/.bin/node', ['dist/vipnat.js', ...words], { cwd: folder });
    return [...stdout.matchAll(/image: (\S+)/g)].map(([, name]) => name);
  };
  const name = 'registry.example:5000/us/vipnat';
  expect(await printImages({ RELEASE_IMAGE: name })).toEqual([
    `${name}:${version}`,
    `${name}-keepalived:${version}`,
  ]);
  expect(await printImages({ RELEASE_IMAGE: '' })).toEqual(Object.values(ownImages));
});

import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { locateNfpm } from '../../../lab/build/build.ts';
import { makeArtifacts, releaseEnvironment, releaseLimitMs, steps } from './artifacts.ts';

/** What git has, without what only tests need; and what is downloaded or built once. */
const sources = ['agent', 'cli', 'config', 'docs', 'lab', 'lib', 'manifests', 'release', 'scripts'];
const files = ['package.json', 'package-lock.json', 'tsconfig.json', 'CHANGELOG.md', 'LICENSE', 'README.md'];

let elsewhere = '';
let here = '';
beforeAll(async () => {
  here = await makeArtifacts();
  elsewhere = mkdtempSync('.cache/release-elsewhere-');
  for (const name of [...sources, ...files]) cpSync(name, join(elsewhere, name), { recursive: true });
  mkdirSync(join(elsewhere, '.cache/lab/components'), { recursive: true });
  mkdirSync(join(elsewhere, '.cache/release'));
  const [nfpm, cache] = [join(locateNfpm(), '..'), '.cache/release'];
  // By real paths of its own, as in another checkout.
  await execa('cp', ['-al', 'node_modules', elsewhere]);
  await execa('cp', ['-al', nfpm, join(elsewhere, '.cache/lab/components')]);
  await execa('bash', ['-c', `cp -al ${cache}/node-linux-* ${join(elsewhere, cache)}`]);
}, releaseLimitMs);
afterAll(() => {
  if (existsSync(elsewhere)) rmSync(elsewhere, { recursive: true });
});

test(
  'a release that is made elsewhere, later, with another umask, time zone and language has the same bytes',
  async () => {
    const there = join(elsewhere, 'made');
    await execa('sh', ['-c', `umask 077; exec scripts/release --output made ${steps.join(' ')}`], {
      cwd: elsewhere,
      env: { ...releaseEnvironment, TZ: 'Asia/Tokyo', LANG: 'tr_TR.UTF-8', LC_ALL: 'C.UTF-8' },
    });
    const sums = readFileSync(join(there, 'SHA256SUMS'), 'utf8');
    expect(sums).toBe(readFileSync(join(here, 'SHA256SUMS'), 'utf8'));
    expect(sums.trim().split('\n').length).toBeGreaterThan(10);
    const { exitCode } = await execa('sha256sum', ['--check', '--quiet', '--strict', 'SHA256SUMS'], {
      cwd: here,
    });
    expect(exitCode).toBe(0);
  },
  releaseLimitMs,
);

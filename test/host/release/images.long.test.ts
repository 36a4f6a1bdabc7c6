import { jest, beforeAll, afterAll, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { type Bases, prepareBases, toStorageConfiguration } from '../../support/image/build.ts';
import { findArtifact, makeArtifacts, releaseEnvironment } from '../../support/release/artifacts.ts';
import { copyCheckout, makeElsewhere } from './elsewhere.ts';
import { rmSync, mkdirSync, writeFileSync, readFileSync, readdirSync } from 'node:fs';
import { execa } from 'execa';

// Two images are built twice, in stores that know nothing of each other.
jest.setTimeout(900_000);

const here = join(rootFolder, '.cache/release/images');
let elsewhere = '';
let bases: Bases;
beforeAll(async () => {
  await makeArtifacts();
  bases = await prepareBases();
  elsewhere = join(rootFolder, await copyCheckout());
});
afterAll(async () => {
  rmSync(here, { recursive: true, force: true });
  if (elsewhere === '') return;
  await execa('buildah', ['rm', '--all'], { env: otherStore(), reject: false });
  rmSync(elsewhere, { recursive: true });
});

/** What buildah needs to keep images elsewhere. */
function otherStore(): Record<string, string> {
  const folder = join(elsewhere, 'storage');
  const configuration = join(elsewhere, 'storage.conf');
  mkdirSync(folder, { recursive: true });
  const place = { folder, runFolder: join(elsewhere, 'run'), driver: bases.store.driver };
  writeFileSync(configuration, toStorageConfiguration(place));
  return { ...bases.env, CONTAINERS_STORAGE_CONF: configuration };
}

/** Copies the images to build on: buildah 1.28 fails on one that is in a store beside its own ("layer not known"). */
async function copyBases(env: Record<string, string>): Promise<void> {
  const archive = join(elsewhere, 'base.tar');
  for (const name of [bases.base, bases.builder]) {
    await execa('buildah', ['push', '--quiet', name, `oci-archive:${archive}:${name}`], { env: bases.env });
    await execa('buildah', ['pull', '--quiet', `oci-archive:${archive}`], { env });
    rmSync(archive);
  }
}

test('the images of a release that is made elsewhere, with another umask, time zone and language have the same bytes', async () => {
  const { base, builder } = bases;
  const environment = { ...releaseEnvironment, RELEASE_BASE: base, RELEASE_BUILDER: builder };
  const options = { cwd: rootFolder, env: { ...bases.env, ...environment } };
  await execa('scripts/release', ['--output', here, 'images'], options);
  const other = otherStore();
  await copyBases(other);
  const there = await makeElsewhere(elsewhere, ['images'], { ...other, ...environment });
  expect(readFileSync(join(there, 'SHA256SUMS'), 'utf8')).toBe(
    readFileSync(join(here, 'SHA256SUMS'), 'utf8'),
  );
  expect(readdirSync(there).filter((name) => name.endsWith('.tar'))).toHaveLength(2);
});

test.each([
  ['vipnat-image', 'usr/sbin/nft'],
  ['vipnat-keepalived-image', 'usr/sbin/keepalived'],
])('no layer of %s has a setuid program, apt or perl', async (image, program) => {
  const files = (await listLayers(findArtifact(here, new RegExp(`^${image}-.*\\.tar$`)))).split('\n');
  expect(files.filter((line) => line.endsWith(` ${program}`))).toHaveLength(1);
  expect(files.filter((line) => /^-(?:..s|.{5}s)|bin\/(?:apt|apt-get|perl|su)$/i.test(line))).toEqual([]);
});

/** The files of all layers of an OCI archive, as tar prints them. What is no layer, tar refuses. */
async function listLayers(archive: string): Promise<string> {
  const folder = join(here, 'layout');
  mkdirSync(folder, { recursive: true });
  const script =
    'tar -xf "$1"; for blob in blobs/sha256/*; do tar -tvzf $blob 2>/dev/null || true; done; rm -r blobs';
  return (await execa('bash', ['-euc', script, 'bash', archive], { cwd: folder })).stdout;
}

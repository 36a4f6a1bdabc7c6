import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { mkdirSync, writeFileSync, chmodSync, utimesSync } from 'node:fs';
import { test, expect } from '@jest/globals';
import { packTar } from '../../../../tools/release/settings/pack.ts';
import { execa } from 'execa';

let folder: string;
makeFolderEach('pack', (path) => {
  folder = path;
});

/** Makes the same files in another order, at another time, by somebody with another umask. */
function fill(name: string, { files, mode, time }: { files: readonly string[]; mode: number; time: number }) {
  const root = join(folder, name);
  mkdirSync(join(root, 'a'), { recursive: true });
  for (const file of files) {
    const path = join(root, 'a', file);
    writeFileSync(path, file);
    chmodSync(path, mode);
    utimesSync(path, time, time);
  }
  chmodSync(join(root, 'a'), mode | 0o100);
  return root;
}

test('the same files make the same bytes, whoever made them in whatever order and when', async () => {
  const one = fill('one', { files: ['x', 'y', 'z'], mode: 0o644, time: 1 });
  const other = fill('other', { files: ['z', 'x', 'y'], mode: 0o600, time: 1_800_000_000 });
  const release = { epoch: 1_767_225_600 };
  const packed = await packTar(release, one, ['a']);
  expect(packed.equals(await packTar(release, other, ['a']))).toBe(true);
  const { stdout } = await execa('tar', ['--list', '--verbose', '--utc', '--numeric-owner'], {
    input: packed,
  });
  const lines = stdout.split('\n').map((line) => line.replace(/ +/g, ' '));
  expect(lines).toEqual([
    'drwxr-xr-x 0/0 0 2026-01-01 00:00 a/',
    ...['x', 'y', 'z'].map((file) => `-rw-r--r-- 0/0 1 2026-01-01 00:00 a/${file}`),
  ]);
});

test('what is not there is an error, and no empty archive', async () => {
  await expect(packTar({ epoch: 0 }, folder, ['none'])).rejects.toThrow(/none/);
});

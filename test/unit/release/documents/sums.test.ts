import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { writeFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, test, expect } from '@jest/globals';
import { writeSums, listSummed } from '../../../../tools/release/documents/sums.ts';

let folder: string;
makeFolderEach('sums', (path) => {
  folder = path;
  writeFileSync(join(folder, 'b.tgz'), 'b');
  writeFileSync(join(folder, 'a.deb'), 'a');
});

const check = () => execa('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: folder, reject: false });

describe('SHA256SUMS', () => {
  test('is what sha256sum checks every file by, and finds a changed one by', async () => {
    writeSums(folder);
    expect(await check()).toMatchObject({ exitCode: 0, stdout: 'a.deb: OK\nb.tgz: OK' });
    writeFileSync(join(folder, 'b.tgz'), 'c');
    expect(await check()).toMatchObject({ exitCode: 1, stdout: 'a.deb: OK\nb.tgz: FAILED' });
  });

  test('says again what is there, never of itself', () => {
    expect(listSummed(folder)).toEqual([]);
    writeSums(folder);
    const first = readFileSync(join(folder, 'SHA256SUMS'), 'utf8');
    writeSums(folder);
    expect(readFileSync(join(folder, 'SHA256SUMS'), 'utf8')).toBe(first);
    expect(listSummed(folder)).toEqual(['a.deb', 'b.tgz']);
  });

  test('names no file of another folder', () => {
    writeFileSync(join(folder, 'SHA256SUMS'), `${'0'.repeat(64)}  ../a.deb\n`);
    expect(listSummed(folder)).toEqual([]);
  });
});

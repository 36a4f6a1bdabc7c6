import { makeFolderEach } from '../../support/network/own-folder.ts';
import { join } from 'node:path';
import {
  mkdirSync,
  writeFileSync,
  lstatSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  linkSync,
  chmodSync,
  chownSync,
  statSync,
} from 'node:fs';
import { describe, test, expect } from '@jest/globals';
import { replaceFile } from '../../../lib/files.ts';
import { execFileSync } from 'node:child_process';

let root: string;
let folder = '';
let file = '';
let victim = '';
makeFolderEach('replace', (path) => {
  root = path;
  folder = join(root, 'folder');
  file = join(folder, 'file');
  victim = join(root, 'passwd');
  mkdirSync(folder);
  writeFileSync(victim, 'root:x:0:0\n', { mode: 0o600 });
});

const toMode = (path: string) => (lstatSync(path).mode & 0o777).toString(8);

describe('a file that is replaced', () => {
  test('has the text, is ours, readable by all, and nothing is left beside it', async () => {
    const umask = process.umask(0o077);
    try {
      await replaceFile(join(folder, 'deep', 'er', 'file'), 'one\n');
      await replaceFile(join(folder, 'deep', 'er', 'file'), 'two\n');
    } finally {
      process.umask(umask);
    }
    const made = join(folder, 'deep', 'er');
    expect(readdirSync(made)).toEqual(['file']);
    expect(readFileSync(join(made, 'file'), 'utf8')).toBe('two\n');
    expect(toMode(join(made, 'file'))).toBe('644');
  });

  /** What somebody puts in its place. */
  const plants: readonly [string, () => void][] = [
    [
      'a link to a file',
      () => {
        symlinkSync(victim, file);
      },
    ],
    [
      'a link to nothing',
      () => {
        symlinkSync(join(root, 'made-by-vipnat'), file);
      },
    ],
    [
      'a second name of a file',
      () => {
        linkSync(victim, file);
      },
    ],
    ['a named pipe', () => execFileSync('mkfifo', [file])],
    [
      'a file that all may write',
      () => {
        writeFileSync(file, '');
        chmodSync(file, 0o666);
      },
    ],
  ];

  test.each(plants)('takes the place of %s, and nothing outside is written', async (_, plant) => {
    plant();
    await replaceFile(file, 'new\n');
    expect(lstatSync(file)).toMatchObject({ nlink: 1, uid: process.getuid?.() });
    expect(lstatSync(file).isFile()).toBe(true);
    expect(toMode(file)).toBe('644');
    expect(readFileSync(file, 'utf8')).toBe('new\n');
    expect(readFileSync(victim, 'utf8')).toBe('root:x:0:0\n');
    expect(toMode(victim)).toBe('600');
    expect(readdirSync(root).sort()).toEqual(['folder', 'passwd']);
  });

  test('is no longer of the user who has put it there', async () => {
    if (process.getuid?.() !== 0) return;
    writeFileSync(file, '');
    chownSync(file, 65_534, 65_534);
    await replaceFile(file, 'new\n');
    expect(statSync(file)).toMatchObject({ uid: 0, gid: process.getgid?.() });
  });

  test('stays, and nothing is left beside it, where a folder is in its place', async () => {
    mkdirSync(file);
    await expect(replaceFile(file, 'new\n')).rejects.toMatchObject({ code: 'EISDIR' });
    expect(readdirSync(folder)).toEqual(['file']);
  });
});

describe('a link in the place of the folder', () => {
  test('is refused where only vipnat makes that folder', async () => {
    const outside = join(root, 'outside');
    mkdirSync(outside);
    symlinkSync(outside, join(folder, 'ours'));
    const path = join(folder, 'ours', 'file');
    await expect(replaceFile(path, '0\n', { isOwnFolder: true })).rejects.toThrow(
      `${join(folder, 'ours')} is a link`,
    );
    expect(readdirSync(outside)).toEqual([]);
  });

  test('is followed where a person may have made it', async () => {
    symlinkSync(folder, join(root, 'state'));
    await replaceFile(join(root, 'state', 'file'), 'new\n');
    expect(readFileSync(file, 'utf8')).toBe('new\n');
  });
});

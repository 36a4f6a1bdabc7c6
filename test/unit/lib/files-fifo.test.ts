import { makeFolderEach } from '../../support/network/own-folder.ts';
import { join } from 'node:path';
import { type FileHandle, open } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { test, expect } from '@jest/globals';
import { Fifo } from '../../../lib/files.ts';
import { writeFileSync } from 'node:fs';

let folder: string;
let path = '';
makeFolderEach('fifo', (made) => {
  folder = made;
  path = join(folder, 'notify');
});

/** As keepalived has it: it does not wait for a reader. */
async function openWriter(): Promise<FileHandle> {
  execFileSync('mkfifo', [path]);
  return await open(path, 'r+');
}

test('answers what was written, also before it was first read, nothing while nothing is, and null after its writer', async () => {
  const fifo = new Fifo(path);
  expect(await fifo.read()).toBeNull();
  const writer = await openWriter();
  await writer.write('one\n');
  expect(await fifo.read()).toBe('one\n');
  expect(await fifo.read()).toBe('');
  await writer.write('two\n');
  expect(await fifo.read()).toBe('two\n');
  await writer.close();
  expect(await fifo.read()).toBeNull();
  await fifo.close();
});

test('takes a plain file for nothing', async () => {
  writeFileSync(path, 'INSTANCE "a" MASTER 1\n');
  expect(await new Fifo(path).read()).toBeNull();
});

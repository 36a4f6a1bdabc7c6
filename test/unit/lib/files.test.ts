import {
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:net';
import { open, type FileHandle } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { makeFolder, makeFolderEach } from '../../support/network/own-folder.ts';
import { Fifo, createDrainStore, readIfThere, refuseForeignFile, replaceFile } from '../../../lib/files.ts';

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
    expect([readdirSync(made), readFileSync(join(made, 'file'), 'utf8')]).toEqual([['file'], 'two\n']);
    expect(toMode(join(made, 'file'))).toBe('644');
  });

  /** What somebody puts in its place. */
  const plants = {
    'a link to a file': 'ln -s "$VICTIM" "$FILE"',
    'a link to nothing': 'ln -s made-by-vipnat "$FILE"',
    'a second name of a file': 'ln "$VICTIM" "$FILE"',
    'a named pipe': 'mkfifo "$FILE"',
    'a file that all may write': 'touch "$FILE"; chmod 666 "$FILE"',
  };

  test.each(Object.entries(plants))('takes the place of %s, and no other is written', async (_, plant) => {
    execFileSync('sh', ['-ec', plant], { env: { ...process.env, FILE: file, VICTIM: victim } });
    await replaceFile(file, 'new\n');
    expect(lstatSync(file)).toMatchObject({ nlink: 1, uid: process.getuid?.() });
    expect([lstatSync(file).isFile(), toMode(file)]).toEqual([true, '644']);
    expect(readFileSync(file, 'utf8')).toBe('new\n');
    expect([readFileSync(victim, 'utf8'), toMode(victim)]).toEqual(['root:x:0:0\n', '600']);
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

describe('a file that may be there', () => {
  const root = makeFolder('read');

  test('is read, also by a link, and one of /proc, which has no size', async () => {
    writeFileSync(join(root, 'file'), 'text\n');
    symlinkSync('file', join(root, 'link'));
    expect(await readIfThere(join(root, 'file'))).toBe('text\n');
    expect(await readIfThere(join(root, 'link'))).toBe('text\n');
    expect(await readIfThere('/proc/self/status')).toMatch(/^Name:/);
  });

  test('is null where there is none', async () => {
    expect(await readIfThere(join(root, 'none'))).toBeNull();
    expect(await readIfThere('/dev/null/none')).toBeNull();
  });

  test('is refused by a link where that is not wanted', async () => {
    symlinkSync('/etc/passwd', join(root, 'planted'));
    const reading = readIfThere(join(root, 'planted'), { refusesLink: true });
    await expect(reading).rejects.toMatchObject({ code: 'ELOOP' });
  });

  test('is refused where it is larger than any, before all of it is read', async () => {
    const path = join(root, 'huge');
    writeFileSync(path, '');
    truncateSync(path, 2 ** 40);
    await expect(readIfThere(path)).rejects.toMatchObject({ code: 'too large' });
    writeFileSync(path, '12345');
    expect(await readIfThere(path, { maxBytes: 5 })).toBe('12345');
    await expect(readIfThere(path, { maxBytes: 4 })).rejects.toMatchObject({ code: 'too large' });
  });

  test('is not waited for where a named pipe, a device, a folder or a socket has its name', async () => {
    execFileSync('mkfifo', [join(root, 'pipe')]);
    mkdirSync(join(root, 'folder'));
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(join(root, 'socket'), () => {
        resolve();
      });
    });
    for (const path of [join(root, 'pipe'), '/dev/zero', join(root, 'folder'), join(root, 'socket')])
      await expect(readIfThere(path)).rejects.toMatchObject({ code: 'no file' });
    await new Promise((resolve) => server.close(resolve));
  });
});

const shared = makeFolderEach('foreign');

const look = (name: string) => refuseForeignFile(join(shared.path, name), '# by vipnat', 'vipnat keepalived');

test.each([
  ['of vipnat itself', '# by vipnat\nx\n'],
  ['with nothing in it', '\n'],
])('a file %s may be replaced, and so may none', async (_what, text) => {
  await expect(look('a')).resolves.toBeUndefined();
  writeFileSync(join(shared.path, 'a'), text);
  await expect(look('a')).resolves.toBeUndefined();
});

test('a file of others and a link to any may not', async () => {
  writeFileSync(join(shared.path, 'a'), 'vrrp_instance ingress {\n}\n');
  symlinkSync('/dev/null', join(shared.path, 'b'));
  await expect(look('a')).rejects.toMatchObject({
    code: 'OUTPUT_NOT_WRITTEN',
    message: `writing ${join(shared.path, 'a')} failed (the file exists, and is not from vipnat keepalived: move it away first)`,
  });
  await expect(look('b')).rejects.toMatchObject({ code: 'OUTPUT_NOT_WRITTEN' });
});

let pipe = '';
makeFolderEach('fifo', (made) => {
  pipe = join(made, 'notify');
});

/** As keepalived has it: it does not wait for a reader. */
async function openWriter(): Promise<FileHandle> {
  execFileSync('mkfifo', [pipe]);
  return await open(pipe, 'r+');
}

test('answers what was written, also before it was first read, nothing while nothing is, and null after its writer', async () => {
  const fifo = new Fifo(pipe);
  expect(await fifo.read()).toBeNull();
  const writer = await openWriter();
  await writer.write('one\n');
  expect([await fifo.read(), await fifo.read()]).toEqual(['one\n', '']);
  await writer.write('two\n');
  expect(await fifo.read()).toBe('two\n');
  await writer.close();
  expect(await fifo.read()).toBeNull();
  await fifo.close();
});

test('takes a plain file for nothing', async () => {
  writeFileSync(pipe, 'INSTANCE "a" MASTER 1\n');
  expect(await new Fifo(pipe).read()).toBeNull();
});

const since = new Date('2026-11-23T10:00:00.000Z');
const later = new Date('2026-11-23T10:00:09.000Z');

const drains = makeFolder('drain');

test('a host is drained from the moment that was saved, until that is taken back', async () => {
  const store = createDrainStore(join(drains, 'deep', 'er'));
  expect(await store.load()).toBeNull();
  await store.save(since);
  expect(await createDrainStore(join(drains, 'deep', 'er')).load()).toEqual({ since, vipStaysSince: null });
  await store.save(null);
  expect([await store.load(), readdirSync(join(drains, 'deep', 'er'))]).toEqual([null, []]);
});

test('to take back what is not there changes nothing', async () => {
  const store = createDrainStore(join(drains, 'none'));
  await store.save(null);
  expect(readdirSync(drains)).not.toContain('none');
});

test.each(['', 'yes\n', '\u0000'])('a file with %j drains the host, since it was written', async (text) => {
  const folder = mkdtempSync(join(drains, 'hand-'));
  const store = createDrainStore(folder);
  writeFileSync(store.location, text);
  utimesSync(store.location, since, since);
  expect(await store.load()).toEqual({ since, vipStaysSince: null });
  await store.addVipStays(later);
  expect(await store.load()).toEqual({ since, vipStaysSince: later });
});

test('that the VIPs may stay ends with the drain, and makes no drain', async () => {
  const folder = mkdtempSync(join(drains, 'stays-'));
  const store = createDrainStore(folder);
  await store.addVipStays(later);
  expect(readdirSync(folder)).toEqual([]);
  await store.save(since);
  await store.addVipStays(later);
  expect(await createDrainStore(folder).load()).toEqual({ since, vipStaysSince: later });
  await store.save(null);
  await store.save(since);
  expect(await store.load()).toEqual({ since, vipStaysSince: null });
  // A power failure in the middle of the write.
  writeFileSync(store.location, `${since.toISOString()}\n\nvip-stays 2026-11-`);
  expect(await store.load()).toEqual({ since, vipStaysSince: null });
});

test('nothing is added through a link', async () => {
  const folder = mkdtempSync(join(drains, 'link-'));
  const store = createDrainStore(folder);
  const target = join(drains, 'target');
  writeFileSync(target, '');
  symlinkSync(target, store.location);
  await expect(store.addVipStays(later)).rejects.toMatchObject({ code: 'STATE_NOT_WRITTEN' });
  expect(readFileSync(target, 'utf8')).toBe('');
});

test('what is no file is told with its name, and with what was tried', async () => {
  const folder = mkdtempSync(join(drains, 'folder-'));
  const store = createDrainStore(folder);
  mkdirSync(join(store.location, 'inner'), { recursive: true });
  const named = (code: string) => ({ code, message: expect.stringContaining(store.location) });
  await expect(store.load()).rejects.toMatchObject(named('STATE_UNREADABLE'));
  await expect(store.save(since)).rejects.toMatchObject(named('STATE_NOT_WRITTEN'));
  await expect(store.save(null)).rejects.toMatchObject(named('STATE_NOT_WRITTEN'));
});

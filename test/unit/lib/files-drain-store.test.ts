import { makeFolder } from '../../support/network/own-folder.ts';
import { test, expect } from '@jest/globals';
import { createDrainStore } from '../../../lib/files.ts';
import { join } from 'node:path';
import {
  readdirSync,
  mkdtempSync,
  writeFileSync,
  utimesSync,
  symlinkSync,
  readFileSync,
  mkdirSync,
} from 'node:fs';

const since = new Date('2026-11-23T10:00:00.000Z');
const later = new Date('2026-11-23T10:00:09.000Z');

const root = makeFolder('drain');

test('a host is drained from the moment that was saved, until that is taken back', async () => {
  const store = createDrainStore(join(root, 'deep', 'er'));
  expect(await store.load()).toBeNull();
  await store.save(since);
  expect(await createDrainStore(join(root, 'deep', 'er')).load()).toEqual({ since, vipStaysSince: null });
  await store.save(null);
  expect(await store.load()).toBeNull();
  expect(readdirSync(join(root, 'deep', 'er'))).toEqual([]);
});

test('to take back what is not there changes nothing', async () => {
  const store = createDrainStore(join(root, 'none'));
  await store.save(null);
  expect(readdirSync(root)).not.toContain('none');
});

test.each(['', 'yes\n', '\u0000'])(
  'a file that says %j drains the host too, since it was written',
  async (text) => {
    const folder = mkdtempSync(join(root, 'hand-'));
    const store = createDrainStore(folder);
    writeFileSync(store.location, text);
    utimesSync(store.location, since, since);
    expect(await store.load()).toEqual({ since, vipStaysSince: null });
    await store.addVipStays(later);
    expect(await store.load()).toEqual({ since, vipStaysSince: later });
  },
);

test('that the VIPs may stay ends with the drain, and makes no drain', async () => {
  const folder = mkdtempSync(join(root, 'stays-'));
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
  const folder = mkdtempSync(join(root, 'link-'));
  const store = createDrainStore(folder);
  const target = join(root, 'target');
  writeFileSync(target, '');
  symlinkSync(target, store.location);
  await expect(store.addVipStays(later)).rejects.toMatchObject({ code: 'STATE_NOT_WRITTEN' });
  expect(readFileSync(target, 'utf8')).toBe('');
});

test('what is no file is told with its name, and with what was tried', async () => {
  const folder = mkdtempSync(join(root, 'folder-'));
  const store = createDrainStore(folder);
  mkdirSync(join(store.location, 'inner'), { recursive: true });
  const named = (code: string) => ({ code, message: expect.stringContaining(store.location) });
  await expect(store.load()).rejects.toMatchObject(named('STATE_UNREADABLE'));
  await expect(store.save(since)).rejects.toMatchObject(named('STATE_NOT_WRITTEN'));
  await expect(store.save(null)).rejects.toMatchObject(named('STATE_NOT_WRITTEN'));
});

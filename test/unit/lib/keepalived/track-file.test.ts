import { describe, expect, test } from '@jest/globals';
import { mkdtempSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTrackFile } from '../../../../lib/keepalived/track-file.ts';
import { makeFolder } from '../../../support/network/own-folder.ts';

describe("keepalived's track file", () => {
  const root = makeFolder('track');

  test('is made with its folder, which others can read, and replaced without leaving anything behind', async () => {
    const folder = join(root, 'vipnat', 'keepalived');
    const file = createTrackFile(join(folder, 'serving'));
    expect(readdirSync(root)).toEqual([]);
    await file.write(1);
    await file.write(0);
    expect(readFileSync(file.location, 'utf8')).toBe('0\n');
    expect(readdirSync(folder)).toEqual(['serving']);
    expect((statSync(folder).mode & 0o777).toString(8)).toBe('755');
    expect((statSync(file.location).mode & 0o777).toString(8)).toBe('644');
  });

  test('says where it cannot be written, and that nothing else is hurt', async () => {
    writeFileSync(join(root, 'file'), '');
    const file = createTrackFile(join(root, 'file', 'serving'));
    await expect(file.write(0)).rejects.toMatchObject({
      code: 'TRACK_FILE_NOT_WRITTEN',
      message: `writing ${file.location} failed (EEXIST). keepalived keeps using the file's last value, and everything else works`,
    });
  });

  test('is not written to where a link in the place of its folder leads', async () => {
    const outside = mkdtempSync(join(root, 'outside-'));
    symlinkSync(outside, join(root, 'keepalived'));
    const file = createTrackFile(join(root, 'keepalived', 'serving'));
    await expect(file.write(0)).rejects.toMatchObject({
      code: 'TRACK_FILE_NOT_WRITTEN',
      message: expect.stringContaining(`failed (${join(root, 'keepalived')} is a link)`),
    });
    expect(readdirSync(outside)).toEqual([]);
  });
});

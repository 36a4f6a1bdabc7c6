import { describe, test, expect } from '@jest/globals';
import { parseNotice, createTrackFile, listAnnouncementLines } from '../../../../lib/keepalived/write.ts';
import { startAgent, linesOf } from '../../../support/agent/running-agent.ts';
import { makeFolder } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { readdirSync, readFileSync, statSync, writeFileSync, mkdtempSync, symlinkSync } from 'node:fs';

const unseen = () => Promise.resolve({ isWatched: null });

test.each([
  ['INSTANCE "vip-10.0.0.50" MASTER 250', { instance: 'vip-10.0.0.50', state: 'MASTER' }],
  // Before 2.0.11 it had no priority.
  ['INSTANCE "vip-fd00::50" FAULT', { instance: 'vip-fd00::50', state: 'FAULT' }],
  ['GROUP "vipnat" MASTER 250', null],
  ['INSTANCE "vip-10.0.0.50" MASTER_RX_LOWER_PRI 250', null],
  ['INSTANCE "vip-10.0.0.50', null],
  ['', null],
])('a line of keepalived: %j', (line, notice) => {
  expect(parseNotice(line)).toEqual(notice);
});

test.each([
  [0, ''],
  [200, ''],
  [201, ' repeat 4'],
  [500, ' repeat 2'],
  [501, ' repeat 1'],
  [1000, ' repeat 1'],
  [1001, ' repeat 1 interval 0.001 interval 0.001'],
])('%d addresses are announced in bursts of 1,000 packets at most, or one after the other', (count, rest) => {
  const words = listAnnouncementLines(count).map((line) => line.replace(/^vrrp_(garp|gna)_(master_)?/, ''));
  expect(words.join(' ')).toBe(`refresh 60${rest}`);
});

describe('the agent', () => {
  test('tells each change of state once, and since when it is so, also where lines come in pieces', async () => {
    const running = startAgent();
    const { clock, notices, agent } = running;
    await clock.advance(2000);
    expect(agent.activity.keepalived).toEqual({});
    notices.say('INSTANCE "vip-10.0.0.50" BACKUP 250\nINSTANCE "vip-10.0.0.50" MAS');
    await clock.advance(600);
    notices.say('TER 250\nGROUP "vipnat" MASTER 250\nINSTANCE "vip-10.0.0.50" MASTER 250\n');
    await clock.advance(600);
    notices.say('INSTANCE "vip-10.0.0.50" FAULT 250\n');
    await clock.advance(60_000);
    const told = (level: string) => linesOf(running, level).filter((line) => line.startsWith('keepalived'));
    expect(told('info')).toEqual([
      'keepalived: vip-10.0.0.50 is BACKUP',
      'keepalived: vip-10.0.0.50 BACKUP -> MASTER',
    ]);
    expect(told('warn')).toEqual(['keepalived: vip-10.0.0.50 MASTER -> FAULT']);
    expect(agent.activity.keepalived?.['vip-10.0.0.50']?.state).toBe('FAULT');
    expect(agent.activity.keepalived?.['vip-10.0.0.50']?.forMs).toBeGreaterThan(59_000);
  });

  test('forgets what keepalived said when that has ended', async () => {
    const { clock, notices, agent } = startAgent();
    notices.say('INSTANCE "vip-10.0.0.50" MASTER 250\n');
    await clock.advance(1000);
    notices.end();
    await clock.advance(1000);
    expect(agent.activity.keepalived).toEqual({});
  });
});

describe("keepalived's track file", () => {
  const root = makeFolder('track');

  test('is made with its folder, which others can read, and replaced without leaving anything behind', async () => {
    const folder = join(root, 'vipnat', 'keepalived');
    const file = createTrackFile(join(folder, 'serving'), unseen);
    expect(readdirSync(root)).toEqual([]);
    await file.write(1);
    await file.write(0);
    expect([readFileSync(file.location, 'utf8'), readdirSync(folder)]).toEqual(['0\n', ['serving']]);
    expect((statSync(folder).mode & 0o777).toString(8)).toBe('755');
    expect((statSync(file.location).mode & 0o777).toString(8)).toBe('644');
  });

  test('says where it cannot be written, and that nothing else is hurt', async () => {
    writeFileSync(join(root, 'file'), '');
    const file = createTrackFile(join(root, 'file', 'serving'), unseen);
    await expect(file.write(0)).rejects.toMatchObject({
      code: 'TRACK_FILE_NOT_WRITTEN',
      message: `writing ${file.location} failed (EEXIST). keepalived keeps using the file's last value, and everything else works`,
    });
  });

  test('is not written to where a link in the place of its folder leads', async () => {
    const outside = mkdtempSync(join(root, 'outside-'));
    symlinkSync(outside, join(root, 'keepalived'));
    const file = createTrackFile(join(root, 'keepalived', 'serving'), unseen);
    await expect(file.write(0)).rejects.toMatchObject({
      code: 'TRACK_FILE_NOT_WRITTEN',
      message: expect.stringContaining(`failed (${join(root, 'keepalived')} is a link)`),
    });
    expect(readdirSync(outside)).toEqual([]);
  });
});

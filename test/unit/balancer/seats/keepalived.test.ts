import { TemporaryFolder } from '../../../support/network/at-end.ts';
import { type SeatFiles, locateSeatFiles } from '../../../../lib/keepalived/write.ts';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { seatsMark, type RunningKeepalived } from '../../../../lib/keepalived/read.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { ConfigurationKeeper } from '../../../../balancer/seats/keepalived.ts';
import { readFileSync, readdirSync, mkdirSync, writeFileSync } from 'node:fs';
import { VipnatError } from '../../../../lib/errors.ts';

let folder: TemporaryFolder;
let files: SeatFiles;
beforeEach(() => {
  folder = new TemporaryFolder('configuration');
  files = locateSeatFiles(join(folder.path, 'lb'));
});
afterEach(() => {
  folder.remove();
});

const configure = (detail: string) => `${seatsMark}\n${detail}\n`;
const old = { pid: 100, startedMs: 5000, ageMs: 60_000 };

const [runs, replaced] = ["the balancer's keepalived runs", 'keepalived.conf is replaced'];
const taken = 'keepalived takes the new keepalived.conf';
const refused = 'keepalived refuses the new keepalived.conf, and continues with the former configuration';
const unchecked = 'keepalived.conf is not checked before it is used, only by keepalived itself';

/** A keeper beside a keepalived that reads what it is told to. */
function startKeeper(first: RunningKeepalived | null = old) {
  const clock = new FakeClock();
  const logger = createRecordingLogger();
  const world = {
    clock,
    running: first,
    /** What keepalived has read, each time. */
    reloads: [] as string[],
    /** What the check comes to. */
    check: (text: string): string | null => (text === '' ? 'it is empty' : null),
  };
  const keeper = new ConfigurationKeeper({
    files,
    clock,
    logger,
    testConfiguration: (path) => Promise.resolve(world.check(readFileSync(path, 'utf8'))),
    findRunning: () => Promise.resolve(world.running),
    reload: () => {
      world.reloads.push(readFileSync(files.file, 'utf8'));
      return world.running !== null;
    },
  });
  const keep = async (text: string) => {
    await keeper.read();
    return await keeper.keep(text);
  };
  const listTold = () =>
    logger.lines.map(({ message, fields }) =>
      fields.details === undefined ? message : `${message}: ${fields.details}`,
    );
  return { ...world, world, keep, listTold };
}

describe('keepalived.conf', () => {
  test('is written, checked before it has its name, and read once', async () => {
    const { keep, world, listTold } = startKeeper();
    world.check = (text) =>
      text.includes('one') && !readdirSync(join(folder.path, 'lb')).includes('keepalived.conf')
        ? null
        : 'too early';
    await keep(configure('one'));
    await keep(configure('one'));
    expect(world.reloads).toEqual([configure('one')]);
    expect(listTold()).toEqual([runs, replaced]);
    expect(readdirSync(join(folder.path, 'lb'))).toEqual(['keepalived.conf']);
  });

  test('that a former life has left as it is wanted is not written again, and read once more: nobody knows whether it was', async () => {
    mkdirSync(join(folder.path, 'lb'));
    writeFileSync(files.file, configure('one'));
    const { keep, world, listTold } = startKeeper();
    await keep(configure('one'));
    await keep(configure('one'));
    expect(listTold()).toEqual([runs]);
    expect(world.reloads).toHaveLength(1);
  });

  test('is read again by each new process, when that is old enough to hear it', async () => {
    const { keep, world } = startKeeper(null);
    await keep(configure('one'));
    expect(world.reloads).toEqual([]);
    world.running = { pid: 101, startedMs: 90_000, ageMs: 200 };
    expect(await keep(configure('one'))).toBe(800);
    expect(world.reloads).toEqual([]);
    world.running = { ...world.running, ageMs: 1000 };
    await keep(configure('one'));
    // The same pid, but another process.
    world.running = { pid: 101, startedMs: 95_000, ageMs: 5000 };
    await keep(configure('one'));
    await keep(configure('one'));
    expect(world.reloads).toHaveLength(2);
  });

  test('that keepalived refuses is kept aside and told once, and the one before stays', async () => {
    const { keep, world, listTold } = startKeeper();
    await keep(configure('one'));
    world.check = () => 'line 7: what';
    for (let second = 0; second < 20; second += 1) {
      await keep(configure('two'));
      await world.clock.advance(1000);
    }
    expect(readFileSync(files.file, 'utf8')).toBe(configure('one'));
    expect(readFileSync(files.refusedFile, 'utf8')).toBe(configure('two'));
    expect(world.reloads).toHaveLength(1);
    world.check = () => null;
    await world.clock.advance(15_000);
    await keep(configure('two'));
    expect(listTold()).toEqual([runs, replaced, `${refused}: line 7: what`, taken, replaced]);
    expect(world.reloads).toEqual([configure('one'), configure('two')]);
  });

  test('is used unchecked where no keepalived is installed, which is told once', async () => {
    const { keep, world, listTold } = startKeeper();
    world.check = () => {
      throw new VipnatError('TOOL_MISSING', 'keepalived is not in PATH');
    };
    await keep(configure('one'));
    await keep(configure('two'));
    expect(listTold()).toEqual([runs, `${unchecked}: keepalived is not in PATH`, replaced, replaced]);
    expect(world.reloads).toEqual([configure('one'), configure('two')]);
  });

  test('that was not checked, and that keepalived itself refuses to read, is told once', async () => {
    const { keep, world, listTold } = startKeeper();
    world.check = () => {
      throw new VipnatError('TOOL_MISSING', 'keepalived is not in PATH');
    };
    await keep(configure('one'));
    writeFileSync(files.checkLog, 'line 7: what\n');
    await keep(configure('one'));
    await keep(configure('one'));
    writeFileSync(files.checkLog, '');
    await keep(configure('one'));
    expect(listTold().slice(-2)).toEqual([`${refused}: line 7: what`, taken]);
  });

  test('that passed the check, and that keepalived refuses all the same when it reads it, is told once', async () => {
    mkdirSync(join(folder.path, 'lb'));
    writeFileSync(files.checkLog, 'line 3: of a former life\n');
    const { keep, listTold } = startKeeper();
    await keep(configure('one'));
    writeFileSync(files.checkLog, 'line 7: no such interface\n');
    await keep(configure('one'));
    await keep(configure('one'));
    writeFileSync(files.checkLog, '');
    await keep(configure('one'));
    expect(listTold()).toEqual([runs, replaced, `${refused}: line 7: no such interface`, taken]);
  });

  test('is not used where the check hangs', async () => {
    const { keep, world } = startKeeper();
    world.check = () => {
      throw new VipnatError('TOOL_TIMED_OUT', 'keepalived had not ended after 10 s');
    };
    await expect(keep(configure('one'))).rejects.toMatchObject({ code: 'TOOL_TIMED_OUT' });
    expect(world.reloads).toEqual([]);
  });

  test('is replaced three times at once, and then once a second', async () => {
    const { keep, world } = startKeeper();
    const waits: (number | null)[] = [];
    for (let change = 0; change < 5; change += 1) waits.push(await keep(configure(`${change}`)));
    expect(waits).toEqual([null, null, null, 1000, 1000]);
    await world.clock.advance(1000);
    await keep(configure('last'));
    expect(world.reloads.map((text) => text.split('\n')[1])).toEqual(['0', '1', '2', 'last']);
  });

  test('of somebody else is left alone', async () => {
    mkdirSync(join(folder.path, 'lb'));
    writeFileSync(files.file, 'vrrp_instance ingress {\n}\n');
    const { keep, world } = startKeeper();
    await expect(keep(configure('one'))).rejects.toMatchObject({ code: 'OUTPUT_NOT_WRITTEN' });
    expect(readFileSync(files.file, 'utf8')).toBe('vrrp_instance ingress {\n}\n');
    expect(world.reloads).toEqual([]);
  });
});

import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { type SeatFiles, locateSeatFiles } from '../../../../lib/keepalived/write.ts';
import { describe, expect } from '@jest/globals';
import { join } from 'node:path';
import { seatsMark, type RunningKeepalived } from '../../../../lib/keepalived/read.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { ConfigurationKeeper } from '../../../../balancer/seats/keepalived.ts';
import { readFileSync, readdirSync, mkdirSync, writeFileSync } from 'node:fs';
import { VipnatError } from '../../../../lib/errors.ts';

let files: SeatFiles;
const folder = makeFolderEach('configuration', (path) => {
  files = locateSeatFiles(join(path, 'lb'));
});

const configure = (detail: string) => `${seatsMark}\n${detail}\n`;
const toDetails = (texts: readonly string[]) => texts.map((text) => text.split('\n')[1]).join(' ') || '-';

/** What lines of the log begin with, to one word for each. */
const lineToWord: Readonly<Record<string, string>> = {
  "the balancer's keepalived runs": 'runs',
  'keepalived.conf is replaced': 'replaced',
  'keepalived takes the new keepalived.conf': 'takes',
  'keepalived refuses the new keepalived.conf, and continues with the former configuration': 'refuses',
  'keepalived.conf is not checked before it is used, only by keepalived itself: keepalived is not in PATH':
    'unchecked',
};

/** A keeper beside a keepalived that reads what it is told to: `one` stands for a text of a file. */
function startKeeper(): Steps {
  const clock = new FakeClock();
  const logger = createRecordingLogger();
  let running: RunningKeepalived | null = { pid: 100, startedMs: 5000, ageMs: 60_000 };
  /** What keepalived has read, each time. */
  const reloads: string[] = [];
  let check = (text: string): string | null => (text === '' ? 'it is empty' : null);
  const keeper = new ConfigurationKeeper({
    ...{ files, clock, logger },
    testConfiguration: (path) => Promise.resolve(check(readFileSync(path, 'utf8'))),
    findRunning: () => Promise.resolve(running),
    reload: () => {
      reloads.push(readFileSync(files.file, 'utf8'));
      return running !== null;
    },
  });
  const keep = async (text: string) => {
    await keeper.read();
    return await keeper.keep(configure(text));
  };
  const write = (path: string, text: string) => {
    mkdirSync(join(folder.path, 'lb'), { recursive: true });
    writeFileSync(path, text);
  };
  const fail = (code: 'TOOL_MISSING' | 'TOOL_TIMED_OUT') => (message: string) => {
    check = () => {
      throw new VipnatError(code, message);
    };
  };
  return {
    keep: async (texts) => {
      for (const text of texts.split(' ')) await keep(text);
    },
    'keep-each-second': async (text) => {
      for (let second = 0; second < 20; second += 1) {
        await keep(text);
        await clock.advance(1000);
      }
    },
    waits: async (detail) => {
      const [text = '', ms = ''] = detail.split(' for ');
      expect(String(await keep(text))).toBe(ms);
    },
    rejects: async (detail) => {
      const [text = '', code] = detail.split(' with ');
      await expect(keep(text)).rejects.toMatchObject({ code });
    },
    wait: (ms) => clock.advance(Number(ms)),
    runs: (detail) => {
      const [pid = 0, startedMs = 0, ageMs = 0] = detail.split(' ').map(Number);
      running = detail === 'not' ? null : { pid, startedMs, ageMs };
    },
    // keepalived.conf has not its name yet.
    'check-early': () => {
      const isEarly = () => !readdirSync(join(folder.path, 'lb')).includes('keepalived.conf');
      check = (text) => (text.includes('one') && isEarly() ? null : 'too early');
    },
    refuse: (text) => (check = () => text),
    accept: () => (check = () => null),
    missing: fail('TOOL_MISSING'),
    hang: fail('TOOL_TIMED_OUT'),
    former: (text) => {
      write(files.file, text.includes('{') ? text : configure(text));
    },
    log: (text) => {
      write(files.checkLog, text === '-' ? '' : `${text}\n`);
    },
    ...toChecks({
      file: (text) => [readFileSync(files.file, 'utf8'), text.includes('{') ? text : configure(text)],
      aside: (text) => [readFileSync(files.refusedFile, 'utf8'), configure(text)],
      alone: () => [readdirSync(join(folder.path, 'lb')), ['keepalived.conf']],
      read: (texts) => [toDetails(reloads), texts],
      told: (text) => {
        const words = logger.lines.map(({ message, fields: { details } }) => {
          const word = lineToWord[message] ?? message;
          return details === undefined ? word : `${word} (${details})`;
        });
        return [words.join(', '), text];
      },
    }),
  };
}

describe('keepalived.conf', () => {
  testSteps(startKeeper, {
    'is written, checked before it has its name, and read once':
      'check-early; keep one one; read one; told runs, replaced; alone',
    'that a former life has left as it is wanted is not written again, and read once more: nobody knows whether it was':
      'former one; keep one one; told runs; read one',
    'is read again by each new process, also of the same pid, when that is old enough to hear it':
      'runs not; keep one; read -; runs 101 90000 200; waits one for 800; read -; runs 101 90000 1000; keep one; ' +
      'runs 101 95000 5000; keep one one; read one one',
    'that keepalived refuses is kept aside and told once, and the one before stays':
      'keep one; refuse line 7: what; keep-each-second two; file one; aside two; read one; accept; wait 15000; ' +
      'keep two; told runs, replaced, refuses (line 7: what), takes, replaced; read one two',
    'is used unchecked where no keepalived is installed, which is told once':
      'missing keepalived is not in PATH; keep one two; told runs, unchecked, replaced, replaced; read one two',
    'that was not checked, and that keepalived itself refuses to read, is told once':
      'missing keepalived is not in PATH; keep one; log line 7: what; keep one one; log -; keep one; ' +
      'told runs, unchecked, replaced, refuses (line 7: what), takes',
    'that passed the check, and that keepalived refuses all the same when it reads it, is told once':
      'log line 3: of a former life; keep one; log line 7: no such interface; keep one one; log -; keep one; ' +
      'told runs, replaced, refuses (line 7: no such interface), takes',
    'is not used where the check hangs':
      'hang keepalived had not ended after 10 s; rejects one with TOOL_TIMED_OUT; read -',
    'is replaced three times at once, and then once a second':
      'waits 0 for null; waits 1 for null; waits 2 for null; waits 3 for 1000; waits 4 for 1000; wait 1000; ' +
      'keep last; read 0 1 2 last',
    'of somebody else is left alone':
      'former vrrp_instance ingress {}; rejects one with OUTPUT_NOT_WRITTEN; file vrrp_instance ingress {}; read -',
  });
});

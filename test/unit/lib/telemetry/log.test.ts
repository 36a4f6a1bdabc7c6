import {
  type LogFormat,
  type LogLevel,
  type Logger,
  createLogger,
  heartbeatProbe,
  heartbeatFile,
  Heartbeat,
} from '../../../../lib/telemetry/log.ts';
import { PassThrough } from 'node:stream';
import { describe, test, expect } from '@jest/globals';
import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { uptime } from 'node:os';
import { FakeClock } from '../../../support/fakes/clock.ts';

async function record(logFormat: LogFormat, logLevel: LogLevel, write: (to: Logger) => void, isTTY = false) {
  const stream = Object.assign(new PassThrough(), { isTTY });
  write(await createLogger({ logFormat, logLevel }, stream));
  return String(stream.read() ?? '');
}

describe('pretty lines', () => {
  test('are local time to the millisecond, level and sentence', async () => {
    const text = await record('pretty', 'info', (logger) => {
      logger.info('10.0.0.13:6443 is dead', { way: 'direct' });
      logger.error('no');
    });
    expect(text).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} info {2}10\.0\.0\.13:6443 is dead\n\d\d:\d\d:\d\d\.\d{3} error no\n$/,
    );
    const now = new Date();
    const [hours, minutes] = text.split(':').map(Number);
    const age = (now.getHours() * 60 + now.getMinutes() - Number(hours) * 60 - Number(minutes) + 1440) % 1440;
    expect(age).toBeLessThanOrEqual(1);
  });

  test('stay one line, with details indented below', async () => {
    const text = await record('pretty', 'info', (logger) => {
      logger.warn('it\nfailed', { details: '*nat\nCOMMIT\n' });
    });
    expect(text.slice(13)).toBe('warn  it failed\n    *nat\n    COMMIT\n');
  });

  test('of an error have its code before the sentence, as a failed command has', async () => {
    const text = await record('pretty', 'info', (logger) => {
      logger.error('nft failed', { code: 'TOOL_FAILED' });
    });
    expect(text.slice(13)).toBe('error [TOOL_FAILED] nft failed\n');
  });

  test('are coloured on a terminal only, and there not with NO_COLOR', async () => {
    const write = (logger: Logger) => {
      logger.error('no');
    };
    const before = process.env['NO_COLOR'];
    delete process.env['NO_COLOR'];
    try {
      expect(await record('pretty', 'info', write, true)).toContain('\u001b[31merror');
      expect(await record('pretty', 'info', write, false)).not.toContain('\u001b');
      process.env['NO_COLOR'] = '1';
      expect(await record('pretty', 'info', write, true)).not.toContain('\u001b');
    } finally {
      if (before === undefined) delete process.env['NO_COLOR'];
      else process.env['NO_COLOR'] = before;
    }
  });
});

test('JSON lines hold time, level and msg first, then the fields, which cannot take their place', async () => {
  const text = await record('json', 'info', (logger) => {
    logger.info('"quoted"\nlines', { way: 'direct', level: 'x', details: 'a\nb' });
  });
  const line = JSON.parse(text) as Record<string, unknown>;
  expect(Object.keys(line)).toEqual(['time', 'level', 'msg', 'way', 'details']);
  expect(line).toMatchObject({ level: 'info', msg: '"quoted"\nlines', way: 'direct', details: 'a\nb' });
  expect(line['time']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(text.match(/\n/g)).toHaveLength(1);
});

test.each<[LogLevel, number]>([
  ['error', 1],
  ['warn', 2],
  ['info', 3],
  ['debug', 4],
])('level %s lets %d of the four levels through', async (level, count) => {
  const text = await record('json', level, (logger) => {
    logger.error('e');
    logger.warn('w');
    logger.info('i');
    logger.debug('d');
  });
  expect(text.split('\n').filter((line) => line !== '')).toHaveLength(count);
});

test('a reader that goes away does not end the agent', async () => {
  const stream = new PassThrough();
  const logger = await createLogger({ logFormat: 'json', logLevel: 'info' }, stream);
  stream.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  logger.info('still here');
  expect(String(stream.read())).toContain('still here');
});

const folder = makeFolderEach('heartbeat');

/** How a container's shell ends that the kubelet starts; null stands for no file. */
function ask(text: string | null): boolean {
  const file = join(folder.path, 'alive');
  if (text !== null) writeFileSync(file, text);
  const [program, ...words] = heartbeatProbe.map((word) => word.replace(heartbeatFile, file));
  try {
    execFileSync(program ?? '', words, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test.each([
  ['before the time that the agent wrote', (now: number) => `${now + 60}\n`, true],
  ['after it', (now: number) => `${now - 1}\n`, false],
  ['of a file with nothing in it', () => '', false],
  ['of no file', () => null, false],
])("the kubelet's probe %s", (_title, write, isAlive) => {
  expect(ask(write(Math.floor(uptime())))).toBe(isAlive);
});

describe('a heartbeat', () => {
  const start = async (leftMs: () => number, write: (text: string) => Promise<void>) => {
    const clock = new FakeClock();
    const problems: string[] = [];
    const heartbeat = new Heartbeat({
      clock,
      uptimeMs: () => 1_000_400 + clock.now(),
      leftMs,
      write,
      onProblem: ({ code, message }) => problems.push(`${code} ${message}`),
    });
    const origin = clock.now();
    await heartbeat.start();
    return { clock, heartbeat, problems, origin };
  };

  test('says every five seconds until when the agent is alive, and nothing more once it has stopped', async () => {
    const written: string[] = [];
    let leftMs = 120_000;
    const { clock, heartbeat, origin } = await start(
      () => leftMs,
      (text) => Promise.resolve(void written.push(text)),
    );
    await clock.advance(5000);
    // The loop hangs from here on.
    leftMs = -1000;
    await clock.advance(5000);
    heartbeat.stop();
    await clock.advance(60_000);
    const seconds = 1000 + Math.floor(origin / 1000);
    expect(written).toEqual([120, 125, 9].map((each) => `${seconds + each}\n`));
  });

  test('that cannot be written says so once in a row, and goes on', async () => {
    let error: Error | null = Object.assign(new Error('x'), { code: 'EROFS' });
    const { clock, problems, heartbeat } = await start(
      () => 1,
      () => (error === null ? Promise.resolve() : Promise.reject(error)),
    );
    await clock.advance(5000);
    expect(problems).toEqual([
      `HEARTBEAT_NOT_WRITTEN writing ${heartbeatFile} failed (EROFS). Until vipnat can write it, the kubelet restarts this pod again and again`,
    ]);
    const again = error;
    error = null;
    await clock.advance(5000);
    error = again;
    await clock.advance(5000);
    expect(problems).toHaveLength(2);
    heartbeat.stop();
  });
});

import { describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { Heartbeat, heartbeatFile, heartbeatProbe } from '../../../../lib/telemetry/heartbeat.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { makeFolderEach } from '../../../support/network/own-folder.ts';

let folder: string;
makeFolderEach('heartbeat', (path) => {
  folder = path;
});

/** How a container's shell ends that the kubelet starts; null stands for no file. */
function ask(text: string | null): boolean {
  const file = join(folder, 'alive');
  if (text !== null) writeFileSync(file, text);
  const [program, ...words] = heartbeatProbe.map((word) => word.replace(heartbeatFile, file));
  try {
    execFileSync(program ?? '', words, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

describe("the kubelet's probe", () => {
  test.each([
    ['before the time that the agent wrote', (now: number) => `${now + 60}\n`, true],
    ['after it', (now: number) => `${now - 1}\n`, false],
    ['of a file with nothing in it', () => '', false],
    ['of no file', () => null, false],
  ])('%s', (_title, write, isAlive) => {
    expect(ask(write(Math.floor(uptime())))).toBe(isAlive);
  });
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

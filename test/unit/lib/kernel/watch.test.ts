import { describe, test, expect, afterEach } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { startPoll, startLockWatch, withoutConnectionCounts } from '../../../../lib/kernel/watch.ts';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { readCapture } from '../../../support/kube-proxy/read-capture.ts';

describe('a poll', () => {
  testSteps(startPolling, {
    'takes the first look as what others are compared with, and calls back at changes only':
      'wait 500; changes 0; see 2; wait 50; changes 1; wait 500; changes 1; stop',
    'reports the first of a row of failures, goes on, and reports again after it has seen again':
      'wait 50; fail; wait 500; problems NETLINK_FAILED; see 2; wait 50; changes 1; fail; wait 500; ' +
      'problems NETLINK_FAILED NETLINK_FAILED; stop',
    'calls nobody back once it is stopped, and leaves nothing scheduled':
      'wait 50; see 2; stop; wait 500; changes 0; rests',
  });

  test('looks at multiples of its interval, so that polls wake the processor together', async () => {
    const clock = new FakeClock();
    await clock.advance(30);
    const looks: number[] = [];
    const options = { clock, everyMs: () => 50, onChange: ignore, onProblem: ignore };
    const poll = startPoll({ ...options, sample: () => Promise.resolve(looks.push(clock.now())) });
    await clock.advance(150);
    // 50 is nearly reached at 30: the look at 30 stands for it.
    expect(looks).toEqual([30, 100, 150]);
    await poll.stop();
  });

  test('never starts a look before the last one has ended', async () => {
    const clock = new FakeClock();
    let running = 0;
    let most = 0;
    const sample = async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise<void>((resolve) => clock.schedule(180, resolve));
      running -= 1;
      return null;
    };
    const poll = startPoll({ clock, sample, everyMs: () => 50, onChange: ignore, onProblem: ignore });
    await clock.advance(2000);
    expect(most).toBe(1);
    const stopped = poll.stop();
    await clock.advance(200);
    await stopped;
    expect(clock.pending).toBe(0);
  });
});

/** A poll of what is 1 at first. */
function startPolling(): Steps {
  const clock = new FakeClock();
  const problems: string[] = [];
  let look = () => Promise.resolve(1);
  let changes = 0;
  const poll = startPoll({
    ...{ clock, sample: () => look(), everyMs: () => 50, onChange: () => void (changes += 1) },
    onProblem: ({ code }) => problems.push(code),
  });
  return {
    wait: (ms) => clock.advance(Number(ms)),
    see: (seen) => (look = () => Promise.resolve(Number(seen))),
    fail: () => (look = () => Promise.reject(new Error('EPERM'))),
    stop: () => poll.stop(),
    ...toChecks({
      changes: (count) => [changes, Number(count)],
      problems: (codes) => [problems.join(' '), codes],
      rests: () => [clock.pending, 0],
    }),
  };
}

function ignore(): void {
  // What is reported is another test's matter.
}

describe('the watch on the xtables lock', () => {
  const path = process.env['PATH'];
  let folder: string;
  let source: ReturnType<typeof startLockWatch>;
  let events: string[];
  let delaysMs: number[];

  afterEach(async () => {
    await source.stop();
    process.env['PATH'] = path;
  });

  makeFolderEach('watch', (made) => {
    folder = made;
    process.env['PATH'] = folder;
    [events, delaysMs] = [[], []];
  });

  async function install(script: string): Promise<void> {
    await writeFile(join(folder, 'inotifywait'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }

  /** With waits a hundred times shorter. */
  function start(): void {
    source = startLockWatch({
      clock: {
        ...systemClock,
        schedule: (delayMs, callback) => {
          delaysMs.push(delayMs);
          return systemClock.schedule(delayMs / 100, callback);
        },
      },
      onTrigger: (trigger) => events.push(trigger),
      onProblem: ({ code }) => events.push(code),
    });
  }

  test('triggers for each event, and not for being established', async () => {
    await install("echo 'Watches established.' >&2; echo CLOSE_NOWRITE,CLOSE; exec /bin/sleep 60");
    start();
    await until(() => events.length > 0);
    expect(events).toEqual(['xtables-lock']);
  });

  test('starts the child again after its death, reports that once, and triggers for what it missed', async () => {
    await install(`[ -e ${folder}/again ] || { : > ${folder}/again; echo 'Watches established.' >&2; exit 1; }
echo 'Watches established.' >&2; exec /bin/sleep 60`);
    start();
    await until(() => events.length > 1);
    expect(events).toEqual(['TOOL_FAILED', 'xtables-lock']);
    expect(delaysMs).toEqual([1000]);
  });

  test('a missing tool is reported once and looked for ever more rarely, up to once a minute', async () => {
    start();
    await source.ready;
    await until(() => delaysMs.length > 7);
    expect(events).toEqual(['TOOL_MISSING']);
    expect(delaysMs.slice(0, 8)).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  });
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

const capture = readCapture('proc-net-ip_vs.three-endpoints.txt');

test('connection counts are no change of IPVS, weights are', () => {
  const server = /^( {2}-> \S+ +\S+ +)1( +)\d+( +)\d+/m;
  expect(capture).toMatch(server);
  const plain = withoutConnectionCounts(capture);
  expect(withoutConnectionCounts(capture.replace(server, '$11$242$37'))).toBe(plain);
  expect(withoutConnectionCounts(capture.replace(server, '$10$20$30'))).not.toBe(plain);
  expect(plain).toContain('TCP  0A600001:01BB rr');
});

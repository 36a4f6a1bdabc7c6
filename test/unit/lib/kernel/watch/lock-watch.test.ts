import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { systemClock } from '../../../../../lib/control/clock.ts';
import { startLockWatch } from '../../../../../lib/kernel/watch/lock-watch.ts';
import { type Source } from '../../../../../lib/kernel/watch/source.ts';

describe('the watch on the xtables lock', () => {
  const path = process.env['PATH'];
  let folder: string;
  let source: Source;
  let events: string[];
  let delaysMs: number[];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), `vipnat-${process.pid}-`));
    process.env['PATH'] = folder;
    events = [];
    delaysMs = [];
  });

  afterEach(async () => {
    await source.stop();
    process.env['PATH'] = path;
    await rm(folder, { recursive: true });
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

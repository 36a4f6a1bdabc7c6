import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type ToolCommand } from '../../../../../lib/kernel/tools/exec.ts';
import { ReadyTools } from '../../../../../lib/kernel/tools/ready-tools.ts';
import { FakeClock } from '../../../../support/fakes/clock.ts';

describe('a tool that is kept ready', () => {
  const path = process.env['PATH'];
  const echo: ToolCommand = { tool: 'echoing', arguments: ['-x'] };
  let folder: string;
  let clock: FakeClock;
  let tools: ReadyTools;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), `vipnat-${process.pid}-`));
    process.env['PATH'] = `${folder}:${path ?? ''}`;
    clock = new FakeClock();
    tools = new ReadyTools(clock);
    await install('new');
  });

  afterEach(async () => {
    await tools.keep(Promise.resolve([]));
    process.env['PATH'] = path;
    await rm(folder, { recursive: true });
  });

  /** A tool that notes its process when it starts, and prints its version and what it reads; in place of the one before. */
  async function install(version: string, after = 'cat'): Promise<void> {
    const script = `#!/bin/sh\necho $$ >>${folder}/starts\necho ${version}\n${after}\n`;
    await writeFile(join(folder, 'next'), script, { mode: 0o755 });
    await rename(join(folder, 'next'), join(folder, echo.tool));
  }

  async function listStarts(): Promise<number[]> {
    const text = await readFile(join(folder, 'starts'), 'utf8').catch(() => '');
    return text.split('\n').filter(Boolean).map(Number);
  }

  const run = async (input: string, limitMs = 60_000) =>
    (await tools.run({ ...echo, input, limitMs })).stdout;

  /** Keeps these, and answers all that have started once the last one has. */
  async function keep(commands: readonly ToolCommand[], count: number): Promise<number[]> {
    await tools.keep(Promise.resolve(commands));
    while ((await listStarts()).length < count) await sleep(10);
    return await listStarts();
  }

  test('has started when its input comes, and is used once', async () => {
    expect(await keep([echo], 1)).toHaveLength(1);
    expect(await run('one')).toBe('new\none');
    expect(await listStarts()).toHaveLength(1);
    expect(await run('two')).toBe('new\ntwo');
    expect(await listStarts()).toHaveLength(2);
  });

  test('stays the same until it is used', async () => {
    await keep([echo], 1);
    await keep([echo], 1);
    expect(await run('one')).toBe('new\none');
    expect(await listStarts()).toHaveLength(1);
  });

  test('is none for other arguments', async () => {
    await keep([echo], 1);
    const { stdout } = await tools.run({ ...echo, arguments: [], input: 'one', limitMs: 60_000 });
    expect(stdout).toBe('new\none');
    expect(await listStarts()).toHaveLength(2);
  });

  test('ends when it is no longer wanted, without having read anything', async () => {
    const [pid = 0] = await keep([echo], 1);
    expect(isAlive(pid)).toBe(true);
    await tools.keep(Promise.resolve([]));
    expect(isAlive(pid)).toBe(false);
  });

  test.each([
    ['its file was replaced', () => install('newer')],
    ['it has waited for ten minutes', () => clock.advance(600_000)],
  ])('is not used, and ends, where %s', async (_why, happen) => {
    const [pid = 0] = await keep([echo], 1);
    await happen();
    await run('one');
    expect(await listStarts()).toHaveLength(2);
    await untilGone(pid);
  });

  test('is replaced when it is outdated', async () => {
    const [pid = 0] = await keep([echo], 1);
    await install('newer');
    expect(await keep([echo], 2)).toHaveLength(2);
    expect(isAlive(pid)).toBe(false);
    expect(await run('one')).toBe('newer\none');
    expect(await listStarts()).toHaveLength(2);
  });

  test('and was killed is started for the next input, and may wait again', async () => {
    const [pid = 0] = await keep([echo], 1);
    process.kill(pid, 'SIGKILL');
    await untilGone(pid);
    // Its end is told a moment later.
    await sleep(50);
    expect(await run('one')).toBe('new\none');
    expect(await keep([echo], 3)).toHaveLength(3);
  });

  test('and does not wait is not started ahead again, until it was replaced', async () => {
    await install('hasty', 'exit 1');
    const [pid = 0] = await keep([echo], 1);
    await untilGone(pid);
    await sleep(50);
    await tools.keep(Promise.resolve([echo]));
    await tools.keep(Promise.resolve([echo]));
    expect(await listStarts()).toHaveLength(1);
    await install('patient');
    await keep([echo], 2);
    expect(await run('one')).toBe('patient\none');
    expect(await listStarts()).toHaveLength(2);
  });

  test('is killed with what it has started when it takes too long', async () => {
    await install('slow', 'sleep 60');
    await keep([echo], 1);
    await expect(run('one', 100)).rejects.toMatchObject({ code: 'TOOL_TIMED_OUT' });
  });

  test('and is not there is missing where it is needed, and nowhere else', async () => {
    await rm(join(folder, echo.tool));
    await tools.keep(Promise.resolve([echo, null]));
    await expect(run('one')).rejects.toMatchObject({ code: 'TOOL_MISSING' });
  });

  test('is what was asked for last, however long it took to find', async () => {
    const slow = sleep(50).then(() => [echo]);
    const asked = tools.keep(slow);
    await tools.keep(Promise.resolve([]));
    await asked;
    const [pid] = await listStarts();
    expect(pid === undefined || !isAlive(pid)).toBe(true);
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function untilGone(pid: number): Promise<void> {
  while (isAlive(pid)) await sleep(10);
}

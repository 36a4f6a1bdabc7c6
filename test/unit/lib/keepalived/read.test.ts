import { TemporaryFolder } from '../../../support/network/at-end.ts';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { symlinkSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { findRunning, reloadRunning } from '../../../../lib/keepalived/read.ts';

let folder: TemporaryFolder;
type Child = ChildProcessByStdio<null, Readable, null>;

let children: Child[];
beforeEach(() => {
  folder = new TemporaryFolder('running');
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  folder.remove();
});

/** A process of that name with these arguments, which prints a line when it starts and for each SIGHUP. */
async function start(name: string, ...words: string[]): Promise<Child> {
  const path = join(folder.path, name);
  symlinkSync('/bin/bash', path);
  const script = 'trap "echo read" HUP; echo up; while :; do sleep 0.05; done';
  const child = spawn(path, ['-c', script, '--', ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  await once(child.stdout, 'data');
  return child;
}

const place = () => ({ file: '/run/lb/keepalived.conf', pidFile: join(folder.path, 'keepalived.pid') });
const writePid = (text: string) => {
  writeFileSync(place().pidFile, text);
};

describe('the process that a pid file names', () => {
  test('is found, and reads its configuration again when it is told to', async () => {
    const child = await start('keepalived', '--use-file', '/run/lb/keepalived.conf');
    writePid(`${child.pid ?? 0}\n`);
    const running = await findRunning(place());
    expect(running).toMatchObject({ pid: child.pid });
    expect(running?.ageMs).toBeGreaterThanOrEqual(0);
    expect(running?.ageMs).toBeLessThan(60_000);
    if (running === null) throw new Error('it is not there');
    const heard = once(child.stdout, 'data');
    expect(reloadRunning(running)).toBe(true);
    expect(String(await heard)).toBe('read\n');
    // The same process has the same start, whenever it is asked.
    expect((await findRunning(place()))?.startedMs).toBe(running.startedMs);
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    expect(await findRunning(place())).toBeNull();
    expect(reloadRunning(running)).toBe(false);
  });

  test.each([
    ['of another name', 'haproxy', '/run/lb/keepalived.conf'],
    ['with another configuration', 'keepalived', '/etc/keepalived/keepalived.conf'],
  ])('is none of ours %s', async (_, name, file) => {
    const child = await start(name, '--use-file', file);
    writePid(String(child.pid));
    expect(await findRunning(place())).toBeNull();
  });

  test.each(['', 'x', '-1', '0', '1 2', '99999999999', null])(
    'is none where the file says %j',
    async (text) => {
      if (text !== null) writePid(text);
      expect(await findRunning(place())).toBeNull();
    },
  );
});

import { expect, test } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { makeFolderEach } from '../../support/network/own-folder.ts';
import { join } from 'node:path';

const root = makeFolderEach('groups');

/** Waits for the end of a process as `groups` does that a lab starts. */
function startWaiting(pid: number | undefined, since: string): ChildProcess {
  const words = ['await', String(pid), since, 'nobodys-0', join(root.path, 'lab')];
  return spawn('tools/lab/nodes/groups', words);
}

/** In clock ticks since boot: the 22nd field of proc(5)'s stat. */
const readStartTime = (pid: number | undefined): string =>
  readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[21] ?? '';

test('a later process with the number of a lab that has ended keeps no disk', async () => {
  const disk = join(root.path, 'lab/m1/disk');
  mkdirSync(disk, { recursive: true });
  const later = spawn('sleep', ['60']);
  try {
    const waiter = startWaiting(later.pid, String(Number(readStartTime(later.pid)) - 1));
    await once(waiter, 'close');
    expect([existsSync(disk), later.exitCode]).toEqual([false, null]);
  } finally {
    later.kill('SIGKILL');
  }
});

test.each([
  ['goes', false],
  ['of the next lab of its name stays', true],
])('when a lab has ended, the disk of a node %s', async (_title, isNext) => {
  const disk = join(root.path, 'lab/m1/disk');
  mkdirSync(disk, { recursive: true });
  const lab = spawn('sleep', ['60']);
  const waiter = startWaiting(lab.pid, readStartTime(lab.pid));
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect([existsSync(disk), waiter.exitCode]).toEqual([true, null]);
  if (isNext) {
    rmSync(join(root.path, 'lab'), { recursive: true });
    mkdirSync(disk, { recursive: true });
    writeFileSync(join(disk, 'file'), '');
  }
  lab.kill('SIGKILL');
  await once(waiter, 'close');
  expect([existsSync(disk), existsSync(join(disk, 'file'))]).toEqual([isNext, isNext]);
});

import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'vipnat-groups-'));
});
afterEach(() => {
  rmSync(root, { recursive: true });
});

test.each([
  ['goes', false],
  ['of the next lab of its name stays', true],
])('when a lab has ended, the disk of a node %s', async (_title, isNext) => {
  const disk = join(root, 'lab/m1/disk');
  mkdirSync(disk, { recursive: true });
  const lab = spawn('sleep', ['60']);
  const waiter = spawn('lab/nodes/groups', ['await', String(lab.pid), 'nobodys-0', join(root, 'lab')]);
  await new Promise((resolve) => setTimeout(resolve, 300));
  if (isNext) {
    rmSync(join(root, 'lab'), { recursive: true });
    mkdirSync(disk, { recursive: true });
    writeFileSync(join(disk, 'file'), '');
  }
  lab.kill('SIGKILL');
  await once(waiter, 'close');
  expect([existsSync(disk), existsSync(join(disk, 'file'))]).toEqual([isNext, isNext]);
});

import { type ChildProcess, spawn } from 'node:child_process';
import { afterEach, test, expect } from '@jest/globals';
import { once } from 'node:events';
import { countInotifyInstances } from '../../../../tools/lab/settings/inotify.ts';

let child: ChildProcess | undefined;

afterEach(() => {
  child?.kill();
});

test('an instance of a process counts for as long as the process has it', async () => {
  const program = `require('node:fs').watch('/', () => undefined);
    console.log('it watches');`;
  child = spawn(process.execPath, ['--eval', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  if (child.stdout === null) throw new Error('no output of it can be read');
  await once(child.stdout, 'data');
  const pid = String(child.pid);
  const { allowed, used } = countInotifyInstances([pid]);
  expect(used).toBe(1);
  expect(countInotifyInstances().used).toBeGreaterThanOrEqual(1);
  expect(allowed).toBeGreaterThan(0);
  child.kill();
  await once(child, 'exit');
  expect(countInotifyInstances([pid])).toEqual({ allowed, used: 0 });
});

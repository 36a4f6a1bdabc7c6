import { type ChildProcess, spawn } from 'node:child_process';
import { afterEach, test, expect } from '@jest/globals';
import { listProcesses } from '../../../lib/kernel/host.ts';

const nobody = 65_534;
let children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children = [];
});

async function start(tool: string, ...words: readonly string[]): Promise<number> {
  const child = spawn(tool, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child.pid ?? 0;
}

const sleeper = ['sh', '-c', 'echo ready; exec sleep 60'] as const;
const find = async (pid: number) => (await listProcesses()).find((one) => one.pid === pid);

test('a process of this network namespace is surely here', async () => {
  expect(await find(await start(...sleeper))).toMatchObject({ isSurelyHere: true });
});

test('a process of another network namespace is none of this host', async () => {
  expect(await find(await start('unshare', '--net', ...sleeper))).toBeUndefined();
});

test('of a process that this user may not ask about is told that it may be here', async () => {
  const pid = await start(...sleeper);
  process.seteuid?.(nobody);
  try {
    expect(await find(pid)).toMatchObject({ isSurelyHere: false });
  } finally {
    process.seteuid?.(0);
  }
});

import { test, expect } from '@jest/globals';
import { childCommand, createRealKernel, startChild } from './real-kernel.ts';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

test('when the agent is killed by SIGKILL, its child on the xtables lock dies with it', async () => {
  const agent = startChild(childCommand);
  const pid = String(agent.pid);
  await createRealKernel(agent).watch(() => undefined).ready;
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ');
  expect(children).toHaveLength(1);
  expect(await isAlive(children[0])).toBe(true);
  agent.kill('SIGKILL');
  while (await isAlive(children[0])) await sleep(10);
});

/** A zombie is dead: who inherits it may be slow to bury it. */
async function isAlive(pid: string | undefined): Promise<boolean> {
  const stat = await readFile(`/proc/${pid ?? ''}/stat`, 'utf8').catch(() => '');
  return stat !== '' && !/\) Z /.test(stat);
}

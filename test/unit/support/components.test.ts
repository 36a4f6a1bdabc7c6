import { expect, test } from '@jest/globals';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { makeFolder } from '../../support/network/own-folder.ts';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../../support/jest/waiting.ts';
import { ComponentBuild } from '../../support/run/components.ts';

const folder = makeFolder('components');

test('a build that stands still while something is measured goes on, and its end is awaited', async () => {
  const [log, gate] = [join(folder, 'log'), join(folder, 'gate')];
  const script = `echo begun; until [ -e ${gate} ]; do sleep 0.02; done; echo built`;
  const build = new ComponentBuild(['-c', script], log, ['bash']);
  await waitUntil(
    () => Promise.resolve(existsSync(log) && readFileSync(log, 'utf8') !== ''),
    () => 'it has not begun',
  );
  await sleep(100);
  build.pause(true);
  await sleep(100);
  const ended = build.wait();
  await sleep(100);
  writeFileSync(gate, '');
  expect([await ended, build.readLog()]).toEqual([true, 'begun\nbuilt\n']);
});

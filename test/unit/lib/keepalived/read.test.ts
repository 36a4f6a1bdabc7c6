import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { afterEach, describe, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { findRunning, findTracking, reloadRunning } from '../../../../lib/keepalived/read.ts';

type Child = ChildProcessByStdio<null, Readable, null>;

const children: Child[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});
const folder = makeFolderEach('running');

/** A process of that name with these arguments, which prints a line when it starts and for each SIGHUP. */
async function start(name: string, ...words: string[]): Promise<Child> {
  const path = join(folder.path, name);
  const script = 'trap "echo read" HUP; echo up; while :; do sleep 0.05; done';
  writeFileSync(path, `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  const child = spawn(path, words, { stdio: ['ignore', 'pipe', 'inherit'] });
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
    expect([reloadRunning(running), String(await heard)]).toEqual([true, 'read\n']);
    // The same process has the same start, whenever it is asked.
    expect((await findRunning(place()))?.startedMs).toBe(running.startedMs);
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    expect([await findRunning(place()), reloadRunning(running)]).toEqual([null, false]);
  });

  test.each([
    ['of another name', 'haproxy', '/run/lb/keepalived.conf'],
    ['with another configuration', 'keepalived', '/etc/keepalived/keepalived.conf'],
  ])('is none of ours %s', async (_, name, file) => {
    const child = await start(name, '--use-file', file);
    writePid(String(child.pid));
    expect(await findRunning(place())).toBeNull();
  });

  test.each(['', 'x', '-1', '0', '1 2', '99999999999', null])('is none where it says %j', async (text) => {
    if (text !== null) writePid(text);
    expect(await findRunning(place())).toBeNull();
  });
});

// As keepalived 2.2.7 did with each when the file became 1: of the file, the other instance, this one, and its group.
test.each([
  [['weight 0', '', 'track_file { f }', ''], 'fault'],
  [['', '', 'track_file { f }', ''], 'weight'],
  [['', '', 'track_file { f weight 0 }', ''], 'fault'],
  [['weight -254', '', 'track_file { f }', ''], 'fault'],
  [['weight 0', '', '', ''], 'none'],
  [['weight 0', 'track_file { f }', '', ''], 'none'],
  [['weight 0', '', '', 'track_file { f }'], 'fault'],
  [['', '', '', 'track_file { f }'], 'weight'],
  [['', '', 'track_file { f }', 'init_fail'], 'fault'],
  [['', '', 'track_file { f }', 'sync_group_tracking_weight'], 'weight'],
])('an instance with %j follows a file: %s', ([weight, other, own, group], how) => {
  const text = `track_file f {\n file "/run/serving"\n ${weight}\n}
    vrrp_instance O {\n virtual_ipaddress { 10.0.0.51 }\n ${other}\n}
    vrrp_instance A {\n virtual_ipaddress { 10.0.0.50 }\n ${own}\n}
    ${group === '' ? '' : `vrrp_sync_group G {\n group { A }\n ${group}\n}`}`;
  expect(findTracking(text, '10.0.0.50', '/run/serving')).toBe(how);
  expect(findTracking(text, '10.0.0.52', '/run/serving')).toBeNull();
});

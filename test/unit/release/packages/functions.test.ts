import { expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolderEach } from '../../../support/network/own-folder.ts';

let root: string;
makeFolderEach('package', (path) => {
  root = path;
  for (const folder of ['run/vipnat/keepalived', 'var/lib/vipnat', 'etc/keepalived'])
    mkdirSync(join(root, folder), { recursive: true });
});

/** Purges the package of a host whose root is this test's folder, and on which no agent runs. */
function purge(): void {
  const script = readFileSync('tools/release/package-scripts/functions.sh', 'utf8');
  const here = script.replaceAll(/\/(?:run|var\/lib)\/vipnat|\/etc\/keepalived/g, `${root}$&`);
  execFileSync('sh', ['-ec', `${here}\nagent_runs() { return 1; }\nremove_folders`]);
}

test.each([
  ['nobody', [], false],
  ["the host's keepalived", ['etc/keepalived/keepalived.conf'], true],
  ['keepalived in a pod', ['run/vipnat/keepalived/keepalived.conf'], true],
])('purging a package leaves the track file where %s watches it', (_who, files, stays) => {
  for (const file of files) writeFileSync(join(root, file), `file "${root}/run/vipnat/keepalived/serving"\n`);
  purge();
  expect(existsSync(join(root, 'run/vipnat'))).toBe(stays);
  expect(existsSync(join(root, 'var/lib/vipnat'))).toBe(false);
});

import { listStartedTools, notInPods } from '../support/image/started-tools.ts';
import { test, expect } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { toolMissing } from '../../lib/kernel/tools.ts';
import { productFolders } from '../../tools/lab/settings/folders.ts';
import { packageFormat } from '../../tools/release/images/image-sbom.ts';

/** Started by name, and on every Debian: util-linux and coreutils are essential. */
const onEveryDebian = ['setpriv', 'tail'];

/** Installed, but not started by name, and why; tcpdump is for whoever looks for a fault on a node. */
const others = ['kmod', 'tcpdump'];

const tools = listStartedTools().filter((tool) => ![...onEveryDebian, ...notInPods].includes(tool));

test('every tool that is started is found in the sources', () => {
  expect(tools).toEqual(
    expect.arrayContaining(['inotifywait', 'ip6tables-legacy-restore', 'iptables-nft-save', 'nft']),
  );
});

test('the image has the packages of every tool that is started, and no others', () => {
  const [, list = ''] =
    /--no-install-recommends \\\n((?: {6}[a-z-]+ \\\n)+)/.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
  const installed = list
    .split('\\\n')
    .map((line) => line.trim())
    .filter((name) => name !== '');
  const needed = tools.map((tool) => /the package (\S+)/.exec(toolMissing(tool).message)?.[1]);
  expect([...installed].sort()).toEqual([...new Set([...needed, ...others])].sort());
});

test('the image is made from every folder that the program is built from', () => {
  const lines = readFileSync('.dockerignore', 'utf8').split('\n');
  expect(lines).toEqual(expect.arrayContaining(productFolders.map((folder) => `!${folder}`)));
});

test("keepalived's image is built on the same Debian as vipnat's, by the same digest", () => {
  const [own, keepalived] = ['Dockerfile', 'Dockerfile.keepalived'].map(
    (file) => /^ARG BASE=(.*)$/m.exec(readFileSync(file, 'utf8'))?.[1],
  );
  expect(own).toMatch(/@sha256:[0-9a-f]{64}$/);
  expect(keepalived).toBe(own);
});

test('both are asked for their packages as the release asks for them', () => {
  for (const file of ['Dockerfile', 'Dockerfile.keepalived'])
    expect(readFileSync(file, 'utf8')).toContain(`--showformat '${packageFormat}' >/packages`);
});

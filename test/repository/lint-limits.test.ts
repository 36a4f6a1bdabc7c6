import { spawnSync } from 'node:child_process';
import { expect, test } from '@jest/globals';

/** Lints a text as if it stood in a file of the project; answers the messages about I2. */
function lint(file: string, text: string): string[] {
  const eslint = [
    'node_modules/eslint/bin/eslint.js',
    '--format',
    'json',
    '--stdin',
    '--stdin-filename',
    file,
  ];
  const { stdout } = spawnSync(process.execPath, eslint, { input: text, encoding: 'utf8' });
  const [result] = JSON.parse(stdout) as { messages: { message: string }[] }[];
  return (result?.messages ?? []).map(({ message }) => message).filter((message) => message.includes('(I2)'));
}

const breaches = [
  "import { connect } from 'node:net';",
  "import { request } from 'node:http';",
  "import { execa } from 'execa';",
  "import { RawNetlinkSocket } from 'netlink/dist/raw.js';",
  'export const now = performance.now();',
  'export const date = new Date();',
  'export const timer = setTimeout(() => undefined, 1);',
];

test('lint refuses processes, netlink, sockets and a clock of one’s own outside their places (I2)', () => {
  expect(lint('agent/decide/decide.ts', breaches.join('\n'))).toHaveLength(breaches.length);
}, 60_000);

test('lint lets addresses be told from names, and lib/kernel start processes', () => {
  expect(lint('lib/address/address.ts', "import { isIP } from 'node:net';")).toEqual([]);
  expect(lint('lib/kernel/tools/exec.ts', "import { execa } from 'execa';")).toEqual([]);
}, 60_000);

import { spawnSync } from 'node:child_process';
import { expect, test } from '@jest/globals';

/** Lints each text of standard input as if it stood in its file. Without the rules that need types, which take a minute to be had. */
const program = `
  import { text } from 'node:stream/consumers';
  import { ESLint } from 'eslint';
  import tseslint from 'typescript-eslint';
  const eslint = new ESLint({ overrideConfig: [tseslint.configs.disableTypeChecked] });
  const sources = JSON.parse(await text(process.stdin));
  const lint = async ([filePath, source]) => (await eslint.lintText(source, { filePath }))[0]?.messages ?? [];
  console.log(JSON.stringify(await Promise.all(sources.map(lint))));
`;

/** Lints texts as if they stood in files of the project; answers the messages about I2 for each. */
function lint(...sources: readonly [file: string, text: string][]): string[][] {
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    input: JSON.stringify(sources),
    encoding: 'utf8',
  });
  return (JSON.parse(stdout) as { message: string }[][]).map((messages) =>
    messages.map(({ message }) => message).filter((message) => message.includes('(I2)')),
  );
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
  const [found] = lint(['agent/decide/mode.ts', breaches.join('\n')]);
  expect(found).toHaveLength(breaches.length);
});

test('lint lets addresses be told from names, and lib/kernel start processes', () => {
  const found = lint(
    ['lib/net.ts', "import { isIP } from 'node:net';"],
    ['lib/kernel/tools.ts', "import { execa } from 'execa';"],
  );
  expect(found).toEqual([[], []]);
});

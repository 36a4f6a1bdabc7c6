import { lintText } from '../../tools/prose/program/lint.ts';
import { test, expect, describe, beforeAll } from '@jest/globals';
import { formerSentences } from './former-sentences.ts';
import { makeFolder } from '../support/network/own-folder.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { execa } from 'execa';

/** What the rules find in a text, by default on a page for users: the rule, and the words that its message quotes. */
async function lint(text: string, path = 'docs/page.md'): Promise<string[]> {
  const findings = await lintText(path, text);
  return findings.map(({ rule, message }) => `${rule}: ${/"([^"]*)"/.exec(message)?.[1] ?? message}`);
}

const count = (words: number) => Array.from({ length: words }, (_, index) => `word${index}`).join(' ');
const tooLong = 'length: word0 word1 word2 word3 word4 word5 …';

test.each(formerSentences)('the rules refuse %s', async (former) => {
  expect(await lint(former)).not.toEqual([]);
});

test('a finding names the place, the rule, the words and the better word', async () => {
  const findings = await lintText(
    'docs/page.md',
    '# Title\n\nA *first* [link](https://x.org),\nthen it begins anew.\n',
  );
  expect(findings).toEqual([
    { path: 'docs/page.md', line: 4, column: 16, rule: 'words', message: '"anew": write "again"' },
  ]);
});

describe('a sentence', () => {
  test('has at most 20 words', async () => {
    expect(await lint(`${count(20)}. ${count(20)}.`)).toEqual([]);
    expect(await lint(`${count(21)}.`)).toEqual([tooLong]);
  });

  test('counts code, a link and a dash by what a person reads', async () => {
    expect(await lint(`${count(18)} \`vipnat run --vip 10.0.0.50\` – [word](a-b-c.md#d-e).`)).toEqual([]);
  });

  test('does not end with an abbreviation, a name or a version', async () => {
    expect(await lint(`${count(9)} e.g. \`a\` i.e. Node.js 1.2.3 ${count(9)}.`)).toEqual([tooLong]);
  });

  test.each([
    ['an item of a list', `- ${count(20)}\n- ${count(20)}\n`],
    ['a cell of a table', `| a | b |\n| - | - |\n| ${count(20)} | ${count(20)} |\n`],
  ])('ends with %s', async (_, text) => {
    expect(await lint(text)).toEqual([]);
    expect(await lint(text.replaceAll('word0', 'a word0'))).toHaveLength(2);
  });

  test('may be a question, a heading or a phrase that begins as a relative clause', async () => {
    expect(await lint('# What it does\n\nWhat does it do? It runs.\n\n- what it does\n')).toEqual([]);
    expect(await lint('What it does is clear.')).toEqual(['start: What it does is clear.']);
  });
});

test('words are found over the end of a line, in headings, and not in code or as parts of others', async () => {
  expect(await lint('# The way\n\nIt begins at\nonce.')).toEqual(['words: way', 'words: at once']);
  expect(await lint('`vipnat_vip_mode` always lookup, a gateway, outlook.\n\n```\na way\n```\n')).toEqual([]);
});

describe('internals', () => {
  const text = 'It is (I7), see [ADR 3](adr/0003-a.md) and `test/unit/a.test.ts`.';

  test('are refused where users read', async () => {
    const found = ['I7', 'ADR 3', 'adr/0003', 'test/unit/a.test.ts'].map((one) => `internals: ${one}`);
    expect(await lint(text)).toEqual(found);
    expect(await lint(text, 'README.md')).toEqual(found);
  });

  const pages = ['CONTRIBUTING.md', 'docs/design.md', 'docs/testing.md', 'docs/adr/0001-a.md'];
  test.each(pages)('are allowed in %s', async (path) => {
    expect(await lint(text, path)).toEqual([]);
  });
});

describe('what is read of', () => {
  test('a program: its strings, with an expression as one word, and no comment, name or import', async () => {
    const text = [
      "import a from 'a way to b';",
      '/** It begins anew. */',
      "type A = 'a way to b';",
      'say(`${one(`x`)} begins anew\\nat ${two}`, `Examples:\\n  ${count(3)} a b   this is told here`);',
      "say('it is told', 'anew');",
    ].join('\n');
    const findings = await lintText('cli/page.ts', text);
    expect(findings.map(({ line, column, message }) => `${line}:${column} ${message.split(':')[0]}`)).toEqual(
      ['4:25 "anew"', '4:83 "told"', '5:12 "told"'],
    );
  });

  test('YAML: comments and descriptions', async () => {
    const text = [
      '#!/usr/bin/env told',
      'a: told # it is told here',
      '  # One line of it',
      '  # begins anew.',
      '#     a way to run',
      'description: >-',
      '  It is told by',
      '  {{ .Labels.told }}',
      'told: it is told here',
    ].join('\n');
    const findings = await lintText('manifests/page.yaml', text);
    expect(findings.map(({ line, column, message }) => `${line}:${column} ${message.split(':')[0]}`)).toEqual(
      ['2:17 "told"', '4:12 "anew"', '5:9 "way"', '7:9 "told"'],
    );
  });

  test('JSON: titles and descriptions', async () => {
    expect(await lint('{ "title": "All is told", "told": "it is told" }', 'manifests/page.json')).toEqual([
      'words: told',
    ]);
  });

  test('notes: an empty line, an indented one and a column end a sentence', async () => {
    const text = `${count(20)}\n  ${count(20)}   ${count(20)}\n\n${count(20)} {{ join "a b c" }}\n`;
    expect(await lint(text, 'manifests/chart/templates/NOTES.txt')).toEqual([tooLong]);
  });

  test('the changelog: only what is not released', async () => {
    const text = '# Changelog\n\n## Unreleased\n\nIt is told.\n\n## 0.1.0\n\nIt is told.\n';
    expect(await lint(text, 'CHANGELOG.md')).toEqual(['words: told']);
  });
});

describe('scripts/lint prose', () => {
  const folder = makeFolder('prose');
  beforeAll(() => {
    mkdirSync(join(folder, 'docs/adr'), { recursive: true });
    writeFileSync(join(folder, 'README.md'), 'It is told.\n');
    writeFileSync(join(folder, 'docs/clean.md'), 'It is clear.\n');
    writeFileSync(join(folder, 'docs/other.md'), 'Nothing up its sleeve.\n');
  });

  const program = resolve('tools/prose/program/main.ts');
  const run = (...files: string[]) =>
    execa(process.execPath, [program, ...files], { cwd: folder, reject: false });

  test('without a name reads all files, and fails with their findings', async () => {
    const { exitCode, stdout } = await run();
    expect(exitCode).toBe(1);
    expect(stdout).toContain('docs/other.md:1:16 words "sleeve": write a plain verb');
    expect(stdout).not.toContain('clean');
  });

  test('reads only the named files', async () => {
    expect(await run('docs/clean.md')).toMatchObject({ exitCode: 0, stdout: '' });
    expect(await run('README.md')).toMatchObject({
      exitCode: 1,
      stdout: 'README.md:1:7 words "told": write "reported", "configured", "distinguished"',
    });
  });

  test('refuses a file that is not listed or not there', async () => {
    for (const file of ['docs/none.md', 'docs']) {
      const { exitCode, stderr } = await run(file);
      expect({ exitCode, stderr }).toEqual({
        exitCode: 1,
        stderr: `lint: ${file} is not a file that tools/prose/settings/files.ts lists`,
      });
    }
  });
});

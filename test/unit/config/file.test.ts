import { readDocument } from '../../../config/file.ts';
import { describe, test, expect } from '@jest/globals';

function read(text: string) {
  const { settings, problems } = readDocument(text, 'vipnat.yaml');
  return { settings, problems: problems.map((problem) => problem.text) };
}

const settingsOf = (text: string) =>
  Object.fromEntries([...read(text).settings].map(([name, { value }]) => [name, value]));

describe('settings of a document', () => {
  test('are texts, and lists of texts where an option takes several', () => {
    expect(settingsOf('vip: 10.0.0.50\nendpoints: [10.0.0.11:6443, 10.0.0.12:6443]\nmode: direct\n')).toEqual(
      { vip: ['10.0.0.50'], endpoints: ['10.0.0.11:6443', '10.0.0.12:6443'], mode: 'direct' },
    );
  });

  test('are split at commas like a flag, also inside a list', () => {
    expect(
      settingsOf('vip: 10.0.0.50, 10.0.0.51\nendpoints:\n  - "10.0.0.11:6443,10.0.0.12:6443"\n'),
    ).toEqual({ vip: ['10.0.0.50', '10.0.0.51'], endpoints: ['10.0.0.11:6443', '10.0.0.12:6443'] });
  });

  test('keep numbers and words of YAML as they are written', () => {
    expect(settingsOf('mode: 0x10\nlogLevel: true\n')).toEqual({ mode: '0x10', logLevel: 'true' });
  });

  test.each(['', '# nothing yet\n', '---\n'])('are none in %j, which is no problem', (text) => {
    expect(read(text)).toEqual({ settings: new Map(), problems: [] });
  });

  test('say of each element in which line it stands', () => {
    const vip = read('mode: direct\nvip:\n  - 10.0.0.50\n\n  - 10.0.0.51\n').settings.get('vip');
    expect([vip?.from(0), vip?.from(1)]).toEqual(['vipnat.yaml line 3', 'vipnat.yaml line 5']);
  });
});

describe('problems of a document', () => {
  test.each([
    ['a syntax error', 'vip: [10.0.0.50\nmode: auto\n', /line 2, column 1: /],
    ['another fault beside a quoted address', 'vip: "[fd00::50]:6443" x\n', /line 1, column \d+: Unexpected/],
    ['a key given twice', 'vip: 10.0.0.50\nvip: 10.0.0.51\n', /line 2, column 1: .*unique/],
    ['nesting without end', '['.repeat(60_000), /line 1, column \d+: it is nested too deeply$/],
    [
      'a second document',
      'vip: 10.0.0.50\n---\nvip: 10.0.0.51\n',
      /line 2, column 1: a second document begins: a file may have only one$/,
    ],
    ['a list', '- 10.0.0.50\n', /holds no map of options\. Example: vip: 10\.0\.0\.50:6443$/],
    ['a text', 'just words\n', /holds no map of options\. Example: vip: 10\.0\.0\.50:6443$/],
  ])('%s is one that says where it is', (_, text, problem) => {
    expect(read(text).problems).toEqual([
      expect.stringMatching(new RegExp(`^vipnat\\.yaml ${problem.source}`)),
    ]);
  });

  test.each([
    ['vip: [fd00::50]:6443\n', ['[fd00::50]:6443', 1]],
    ['mode: auto\nvip:\n  - 10.0.0.50\n  - [FD00::50]:6443 # comment\n', ['[FD00::50]:6443', 4]],
    ['vip: [fd00::50]:6443, [fd00::51]:6443\n', ['[fd00::50]:6443', 1]],
    ['listen: [::]:10268\n', ['[::]:10268', 1]],
    ['endpoints: [10.0.0.11:6443, [fd00::11]:6443]\n', ['[fd00::11]:6443', 1]],
    ['endpoints:\n  [\n    10.0.0.11:6443,\n    [fd00::11]:6443,\n  ]\n', ['[fd00::11]:6443', 4]],
  ])('an IPv6 address with a port needs quotes, and %j is told so', (text, [found, line]) => {
    expect(read(text).problems).toEqual([
      `${found} needs quotes (from vipnat.yaml line ${line}): in YAML, brackets begin a list. Example: '${found}'`,
    ]);
  });

  test.each([
    ...['vip: "[fd00::50]:6443"\n', 'vip: [fd00::50]\n', "vip: ['[fd00::50]:6443']\n", 'vip: fd00::50\n'],
  ])('an IPv6 address as in %j is none', (text) => {
    expect(read(text).problems).toEqual([]);
  });

  test('unknown keys are all told, with their lines and the nearest option', () => {
    expect(read('proxy-mode: ipvs\nvip: 10.0.0.50\ncolour: blue\nconfig: x\n').problems).toEqual([
      'proxy-mode is not an option (from vipnat.yaml line 1). Did you mean proxyMode?',
      expect.stringContaining('colour is not an option (from vipnat.yaml line 3). Options: vip, mode,'),
      expect.stringContaining('config is not an option (from vipnat.yaml line 4)'),
    ]);
  });

  test('an alias is refused before it is followed, however much it stands for', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]'];
    for (let level = 0; level < 20; level += 1) {
      const name = String.fromCharCode(97 + level);
      const next = String.fromCharCode(98 + level);
      bomb.push(`${next}: &${next} [${Array.from({ length: 9 }, () => `*${name}`).join(', ')}]`);
    }
    const { problems, settings } = read(`${bomb.join('\n')}\nvip: *u\nendpoints: [*b]\n`);
    expect(problems).toContain('vip has an alias (from vipnat.yaml line 22). Write the value out');
    expect(problems).toContain('endpoints has an alias (from vipnat.yaml line 23). Write the value out');
    expect(settings.size).toBe(0);
  });
});

import { readDocuments, type Code } from '../support/documents/document.ts';
import { loadCommands, listOptions } from '../../cli/command.ts';
import { table, commandNames } from '../../cli/table.ts';
import { parseCommandLine } from '../../cli/program.ts';
import { isPlaceholder, listCommandLines, expandChoices } from '../support/documents/command-lines.ts';
import { readConfig, credentialsVariables, configVariable, podVariable } from '../../config/load.ts';
import { describe, test, expect } from '@jest/globals';
import { globSync, readFileSync, existsSync, accessSync, constants } from 'node:fs';
import { optionNames, nameVariable } from '../../config/options.ts';
import { parseAllDocuments } from 'yaml';

const documents = readDocuments();
const ownFlags = (await loadCommands(table)).flatMap((command) =>
  listOptions(command).map(({ flag }) => flag),
);

/** Options in documents that neither vipnat nor a script has, and whose they are. */
const foreignOptions: Readonly<Record<string, string>> = {
  '--advertise-address': 'kube-apiserver',
  '--authorization-mode': 'kube-apiserver',
  '--goaway-chance': 'kube-apiserver',
  '--ipvs-exclude-cidrs': 'kube-proxy',
  '--lb-class': 'MetalLB',
  '--node-ip': 'kubelet',
  '--reset-then-reuse-values': 'helm upgrade',
  '--reuse-values': 'helm upgrade',
  '--shutdown-delay-duration': 'kube-apiserver',
  '--user': 'docker run',
  '--volume': 'docker run',
};

/** What the grammar and the configuration say against a command line; values that stand for others are let pass. */
async function findProblems(words: readonly string[]): Promise<string[]> {
  const line = `vipnat ${words.join(' ')}`;
  try {
    const invocation = await parseCommandLine(words, '0');
    if (invocation.kind !== 'call' || invocation.command.configOptions === undefined) return [];
    const { flags, problems } = invocation;
    const isConcrete = !words.some(isPlaceholder);
    const reading = { flags, environment: {}, file: undefined, isForElsewhere: true };
    const wrong = isConcrete ? (await readConfig(reading)).problems : [];
    return [...problems, ...wrong].map((problem) => `${line}: ${problem}`);
  } catch (error) {
    return [`${line}: ${String(error)}`];
  }
}

/** `vipnat` alone is the program's name, and `vipnat manifest` in a sentence that of a command. */
const isName = ({ language }: Code, [word = '', ...more]: readonly string[]) =>
  word === '' || (language === null && more.length === 0 && commandNames.some((name) => name === word));

const listWords = (code: readonly Code[]) =>
  code
    .flatMap((each) => listCommandLines(each).filter((words) => !isName(each, words)))
    .flatMap(expandChoices);

const findCommandProblems = async (code: readonly Code[]): Promise<string[]> =>
  (await Promise.all(listWords(code).map(findProblems))).flat();

describe('every command in a document', () => {
  test.each(documents)('of $path is one that vipnat takes', async ({ code }) => {
    expect(await findCommandProblems(code)).toEqual([]);
  });

  test('that it does not take is found', async () => {
    const lines = [
      'vipnat chek --vip 10.0.0.50',
      'A=1 scripts/vipnat check --vpi 10.0.0.50 # and why',
      'scripts/lab exec m1 scripts/vipnat plan --vip 10.0.0.300 --format nft > file',
      'true && vipnat plan --mode derict --vip 10.0.0.50',
      'vipnat manifest daemonset|statik-pod --vip VIP',
      'vipnat plan --vip \\\n  10.0.0.50 --proxy-mode iptables',
    ];
    const found = await findCommandProblems([{ text: lines.join('\n'), language: '' }]);
    expect(found.map((line) => line.replace(/^.*?: /, ''))).toEqual([
      expect.stringContaining('is not a command'),
      expect.stringContaining('is not an option of check'),
      expect.stringContaining('10.0.0.300'),
      expect.stringContaining('derict'),
      expect.stringContaining('statik-pod'),
    ]);
    const printed = { text: '$ vipnat check --vip 10.0.0.50\nvipnat rnu repairs it', language: '' };
    expect(await findCommandProblems([printed])).toEqual([]);
  });

  test('together they show every command there is', () => {
    const shown = documents.flatMap(({ code }) => code.flatMap(listCommandLines)).map(([name]) => name);
    expect([...new Set(shown)]).toEqual(expect.arrayContaining([...commandNames]));
  });
});

describe('every option that stands alone in a sentence', () => {
  const programs = globSync(['scripts/*', 'tools/{lab,bench,demo}/**/*.ts']).filter(
    (path) => path !== 'scripts/lint',
  );
  const scripts = programs.map((path) => readFileSync(path, 'utf8')).join('\n');
  const isKnown = (flag: string) =>
    ownFlags.includes(flag) || flag in foreignOptions || scripts.includes(flag);

  test.each(documents)('of $path is one of vipnat, a script, or a program that is named here', ({ code }) => {
    const spans = code.filter(({ language }) => language === null);
    const flags = spans.flatMap(({ text }) => text.match(/^--[a-z][a-z-]*/g) ?? []);
    expect(flags.filter((flag) => !isKnown(flag))).toEqual([]);
  });

  test('that nobody has is found', () => {
    expect(['--probe-timeout', '--proxymode'].filter((flag) => !isKnown(flag))).toEqual(['--proxymode']);
  });
});

test.each(documents)('every variable in $path is one', ({ code }) => {
  // Those that the kubelet sets where there is a Service called vipnat.
  const kubelet = ['VIPNAT_SERVICE_HOST', 'VIPNAT_PORT'];
  const known = [
    ...optionNames.map(nameVariable),
    ...credentialsVariables,
    configVariable,
    podVariable,
    ...kubelet,
    'VIPNAT_',
  ];
  const named = code.flatMap(({ text }) => text.match(/\bVIPNAT_[A-Z_]*/g) ?? []);
  expect(named.filter((name) => !known.includes(name))).toEqual([]);
});

describe('every path of the project', () => {
  const findMissing = (code: readonly Code[]) => [
    ...listPaths(code, /(?<![\w/.-])scripts\/[a-z][\w.-]*/g).filter((path) => !isProgram(path)),
    ...listPaths(
      code,
      /^(?:agent|balancer|cli|config|controller|devices|docs|lib|manifests|test|tools)\/[\w/.-]*$/g,
    ).filter((path) => !existsSync(path)),
  ];

  test.each(documents)('in $path is there, and a script can be run', ({ code }) => {
    expect(findMissing(code)).toEqual([]);
  });

  test('that is not there is found', () => {
    const code = ['scripts/vipnt check', 'scripts/packages.txt', 'lib/kernel/', 'lib/kernle/port.ts'];
    expect(findMissing(code.map((text) => ({ text, language: null })))).toEqual([
      'scripts/vipnt',
      'lib/kernle/port.ts',
    ]);
  });
});

test.each(documents)('every block of YAML, JSON and ini in $path can be read', ({ code }) => {
  for (const { text, language } of code) {
    if (language === 'yaml')
      for (const { errors } of parseAllDocuments(text) as { errors: unknown[] }[]) expect(errors).toEqual([]);
    if (language === 'json') expect(() => JSON.parse(text) as unknown).not.toThrow();
    if (language === 'ini')
      expect(text.split('\n').filter((line) => !/^(?:#.*|\[\w+\]|[A-Za-z]+=.*|)$/.test(line))).toEqual([]);
  }
});

const listPaths = (code: readonly Code[], pattern: RegExp): string[] =>
  code.flatMap(({ text }) => text.match(pattern) ?? []);

/** Whether it can be run; what has an ending need not be a program. */
function isProgram(path: string): boolean {
  if (/\.\w+$/.test(path)) return existsSync(path);
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

import { commandNames } from '../../../cli/table.ts';
import { helpTopics, manifestKinds } from '../../../cli/command.ts';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { runCommand } from '../../support/network/namespaces.ts';
import { expect, describe, beforeAll, afterAll, test } from '@jest/globals';
import { isFull } from '../../support/jest/extent.ts';
import { shells, type Shell } from '../../../cli/completion.ts';
import { CompletingShell } from '../../support/terminal/completing-shell.ts';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Everything that has a help of its own. */
const topics = [...commandNames, ...manifestKinds.map((kind) => `manifest ${kind}`)];

const typed: readonly (readonly [line: string, words: string])[] = [
  ['sta\t', '<status>'],
  ['status --js\t', '<status><--json>'],
  ['run --proxy-mode ipt\t', '<run><--proxy-mode><iptables>'],
  ['run --proxy-mode=ipt\t', '<run><--proxy-mode=iptables>'],
  ['manifest sys\t --vip 10.0.0.50', '<manifest><systemd><--vip><10.0.0.50>'],
  ['manifest systemd --im\t', '<manifest><systemd><--im>'],
  ['run --config my\t', '<run><--config><my vipnat.yaml>'],
  ['run --config my\\ \t', '<run><--config><my vipnat.yaml>'],
  ['run --config=my\t', '<run><--config=my vipnat.yaml>'],
  ['run --config x\t', '<run><--config><x$(touch executed).yaml>'],
  ['run --config=x\t', '<run><--config=x$(touch executed).yaml>'],
  ['keepalived --output some-fi\t', '<keepalived><--output><some-file>'],
  ['run --state-dir so\t', '<run><--state-dir><some-folder/>'],
  ['help kee\t', '<help><keepalived>'],
  ['help manifest sys\t', '<help><manifest><systemd>'],
];

async function print(args: readonly string[]): Promise<string> {
  const [node = '', ...words] = vipnatCommand(args);
  const { exitCode, stdout } = await runCommand(node, words, {});
  expect({ args, exitCode }).toEqual({ args, exitCode: 0 });
  return `${stdout}\n`;
}

async function listFlags(topic: string): Promise<string[]> {
  const help = await print([...topic.split(' '), '--help']);
  return [...help.matchAll(/^ {2}(?:-h, )?(--[a-z-]+)/gm)].map(([, flag]) => flag ?? '').toSorted();
}

describe.each(isFull ? shells : shells.slice(0, 1))('%s, as it is on a terminal,', (shell: Shell) => {
  let session: CompletingShell;
  beforeAll(async () => {
    session = new CompletingShell(shell, await print(['completion', shell]));
  });
  afterAll(() => {
    session.remove();
  });

  test('completes commands, kinds, options, values, files and folders, and runs no file name', () => {
    const answers = session.type(typed.map(([line]) => line));
    const words = answers.map((answer) => answer.words);
    // zsh takes a slash that it added away again before a command is run.
    const expected = typed.map(([, text]) => (shell === 'zsh' ? text.replace('/>', '>') : text));
    expect(words).toEqual(expected);
    expect(existsSync(join(session.folder, 'executed'))).toBe(false);
  });

  test('lists the options that the help of a command lists, and no others', async () => {
    const listed = session.complete(topics.map((topic) => `${topic} --`));
    const expected = await Promise.all(topics.map(listFlags));
    expect(topics.map((topic, index) => [topic, listed[index]?.toSorted()])).toEqual(
      topics.map((topic, index) => [topic, expected[index]]),
    );
  });

  test('lists commands, kinds and choices where they can stand, and not behind that', () => {
    const lines = ['', 'help ', 'manifest ', 'help manifest ', 'run --mode ', 'run --mode=', 'completion '];
    const listed = session.complete(lines).map((words) => words.filter((word) => !word.startsWith('-')));
    const modes = ['auto', 'service-chain', 'cluster-ip', 'direct'];
    const behindHelp = new Set([...commandNames, ...helpTopics]);
    const expected = [commandNames, [...behindHelp], manifestKinds, manifestKinds, modes, modes, shells];
    expect(listed.map((words) => words.toSorted())).toEqual(expected.map((words) => words.toSorted()));
    const late = ['manifest daemonset stat', 'help status pl', 'status pl', 'completion bash zs'];
    expect(session.type(late.map((line) => `${line}\t`)).map(({ words }) => words)).toEqual(
      late.map((line) => `<${line.replaceAll(' ', '><')}>`),
    );
  });
});

import { describe, expect, test } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { manifest } from '../../cli/commands/manifest.ts';
import { findPodSpec, print } from '../support/manifest/printing.ts';

/** What is written by hand has tests of its own. */
const files = globSync('manifests/*.yaml')
  .map((path) => basename(path))
  .filter((file) => file !== 'alerts.yaml')
  .sort();

/** The words after `vipnat manifest` in a file's first line; none of the examples needs quotes. */
const readCommand = (text: string) => /^# vipnat manifest (.*)\n/.exec(text)?.[1]?.split(' ') ?? [];

describe('manifests/', () => {
  test('has what scripts/manifests writes', () => {
    const written = [...readFileSync('scripts/manifests', 'utf8').matchAll(/^write (\S+)/gm)];
    expect(written.map(([, file]) => file).sort()).toEqual(files);
  });

  test.each(files)('%s is what the command in its first line prints', async (file) => {
    const text = readFileSync(`manifests/${file}`, 'utf8');
    expect(await print(readCommand(text))).toBe(text);
  });
});

/** Of a pod's first container, by what is printed; `run` for the agent's. */
const firstArguments: ReadonlyMap<string, string> = new Map([
  ['keepalived', '--dont-fork'],
  ['services', 'balancer'],
]);

describe('each vipnat manifest that people are told', () => {
  const texts = [manifest.help, readFileSync('docs/install.md', 'utf8')];
  const commands = texts.flatMap((text) => [
    ...text.matchAll(/vipnat manifest ([a-z-]+ --[^|>`\n]*[^|>`\n ])/g),
  ]);
  const isUnit = (command: string) => command.startsWith('systemd ');
  const words = [...new Set(commands.map(([, command = '']) => command))];

  test.each(words.filter(isUnit))('prints a unit: %s', async (command) => {
    expect(await print(command.split(' '))).toMatch(/^ExecStart=\S+ \S+ run --vip=10\.[\d.]+\.50:6443$/m);
  });

  test('is found', () => {
    expect(words.length).toBeGreaterThan(2);
  });

  test.each(words.filter((command) => !isUnit(command)))('prints a pod: %s', async (command) => {
    const { containers } = findPodSpec(await print(command.split(' ')));
    expect(containers[0].args[0]).toBe(firstArguments.get(command.split(' ')[0] ?? '') ?? 'run');
  });
});

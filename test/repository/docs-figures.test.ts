import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { unquote } from '../support/documents/table.ts';

/** The cells of all rows of a document's tables. */
const readRows = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .slice(2, -1)
        .split('|')
        .map((cell) => unquote(cell.trim())),
    );

test("README's figures of failures are those in docs/benchmarks.md", () => {
  const faults = {
    'an apiserver is killed': 'killed',
    'an apiserver is stopped': 'stopped',
    'an apiserver is frozen': 'frozen',
    'another master is cut from the network': 'blackholed',
    'the VIP holder is cut from the network': 'holder',
  };
  const setUps = ['vipnat', 'keepalived + HAProxy', 'kube-proxy alone'];
  const measured = readRows('docs/benchmarks.md');
  const titles = measured.find(([first]) => first === 'fault') ?? [];
  const worst = (fault: string, setUp: string) =>
    measured.find(([first, second]) => first === fault && second === setUp)?.[titles.indexOf('failing p99')];
  const shown = readRows('README.md').filter(([first = '']) => first in faults);
  expect(shown).toEqual(
    Object.entries(faults).map(([title, fault]) => [title, ...setUps.map((setUp) => worst(fault, setUp))]),
  );
});

import { expect, test } from '@jest/globals';
import { parseCommandLine } from '../../../../cli/grammar/command-line.ts';

test.each([
  [[], { action: 'list', node: '' }, []],
  [['drain', 'worker-1', '--json'], { action: 'drain', node: 'worker-1', json: true }, []],
  [
    ['--namespace', 'lb', 'undrain', 'w1.example'],
    { action: 'undrain', node: 'w1.example', namespace: 'lb' },
    [],
  ],
  [['rebalance'], { action: 'rebalance', node: '' }, []],
  [['drain'], {}, ['seats drain needs a node. Example: vipnat seats drain worker-1']],
  [['drain', 'W 1'], {}, ['"W 1" is not a name of a node. Example: vipnat seats drain worker-1']],
  [['rebalanse'], {}, ['rebalanse is none of drain, undrain, rebalance. Example: vipnat seats rebalance']],
  [['rebalance', 'w1'], {}, ['w1 is one word too many. See vipnat seats --help']],
  [['drain', '--jsno'], {}, ['--jsno is not an option of seats. Did you mean --json?']],
])('the command line of seats says what to do: %j', (words, options, problems) => {
  expect(parseCommandLine(['seats', ...words], '1.2.3')).toMatchObject({
    command: { name: 'seats', options },
    problems,
  });
});

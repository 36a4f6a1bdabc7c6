import { CompletingShell } from '../../support/terminal/completing-shell.ts';
import { beforeAll, afterAll, test, expect } from '@jest/globals';
import { formatCompletion } from '../../../cli/completion.ts';
import { table } from '../../../cli/table.ts';
import { checkCall } from '../../support/documents/call.ts';

let bash: CompletingShell;
beforeAll(async () => {
  bash = new CompletingShell('bash', await formatCompletion('bash', table));
});
afterAll(() => {
  bash.remove();
});

// bash is on every machine; zsh and fish, and all that can be completed: test/host/netns/completion.test.ts.
test.each([
  ['sta\t', '<status>'],
  ['help rea\t', '<help><reasons>'],
  ['run --proxy-mode=ipt\t', '<run><--proxy-mode=iptables>'],
  ['manifest daem\t --image x', '<manifest><daemonset><--image><x>'],
  ['manifest systemd --im\t', '<manifest><systemd><--im>'],
  ['run --config my\\ \t', '<run><--config><my vipnat.yaml>'],
  ['run --state-dir so\t', '<run><--state-dir><some-folder/>'],
])('bash completes %j', (line, words) => {
  expect(bash.type([line]).map((answer) => answer.words)).toEqual([words]);
});

test('a shell that is none is refused', async () => {
  expect((await checkCall(['completion', 'tcsh'])).problems).toEqual([
    'vipnat completion tcsh is none of bash, zsh, fish. Example: vipnat completion bash',
  ]);
});

import { definePlainCommand, readChoice } from '../command.ts';
import { shells, formatCompletion, type Shell } from '../completion.ts';
import { exitStatuses } from '../../lib/text.ts';

/** `vipnat completion`: the script by which a shell completes vipnat. Another shell is refused. */
export const completion = definePlainCommand({
  usage: 'bash|zsh|fish',
  help: `
Examples:
  source <(vipnat completion bash)
  vipnat completion fish | source

The first line is for bash, and for zsh after compinit. docs/install.md says where
to put the script for every new shell. The script itself never runs vipnat.
Exit status: 0 printed, 78 no such shell.`,
  flags: {},
  words: {
    choices: shells,
    read: ([shell], { report }) => ({ shell: readShell(shell, report) }),
  },
  run: async ({ options: { shell }, table, stdout }) => {
    stdout(await formatCompletion(shell, table));
    return exitStatuses.done;
  },
});

function readShell(word: string | undefined, report: (problem: string) => void): Shell {
  const reading = { flag: 'vipnat completion', all: {}, words: [], report };
  if (word !== undefined) return readChoice(word, shells, 'bash', reading) ?? 'bash';
  report(`completion needs the shell: ${shells.join(', ')}. Example: vipnat completion bash`);
  return 'bash';
}

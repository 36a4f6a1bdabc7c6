import { definePlainCommand } from '../command.ts';
import { shells, formatCompletion } from '../completion.ts';
import { exitStatuses } from '../../lib/text.ts';

/** `vipnat completion`: the script by which a shell completes vipnat. Throws CONFIG_INVALID for another shell. */
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
  argument: {
    name: 'shell',
    missing: `completion needs the shell: ${shells.join(', ')}. Example: vipnat completion bash`,
    choices: shells,
  },
  run: async ({ words: [shell = ''], table, stdout }) => {
    stdout(await formatCompletion(shell, table));
    return exitStatuses.done;
  },
});

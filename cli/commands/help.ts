import { definePlainCommand, json } from '../command.ts';
import { shells, formatCompletion } from '../completion.ts';
import { version, exitStatuses, formatDocument } from '../../lib/text.ts';

/** `vipnat help`: only its own help is ever asked for, because `help status` is read as `status --help`. */
export const help = definePlainCommand({
  usage: '[COMMAND]',
  help: `
Examples:
  vipnat help status
  vipnat help manifest daemonset

The same as --help after the command.
Exit status: 0 printed, 78 no such command.`,
  flags: {},
  run: () => Promise.resolve(exitStatuses.done),
});

/** `vipnat version`. */
export const printVersion = definePlainCommand({
  help: `
Example:
  vipnat version

Without --json it is the same as vipnat --version.
Exit status: 0 printed.`,
  flags: { json },
  run: ({ options, stdout }) => {
    stdout(options.json ? formatDocument({ version: 1, vipnat: version }) : `${version}\n`);
    return Promise.resolve(exitStatuses.done);
  },
});

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

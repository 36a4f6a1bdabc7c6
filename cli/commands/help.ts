import { definePlainCommand, json } from '../command.ts';
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

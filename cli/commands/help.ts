import { definePlainCommand } from '../command.ts';
import { exitStatuses } from '../../lib/text.ts';

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

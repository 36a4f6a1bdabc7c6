import { exitStatuses } from '../../lib/text/exit-status.ts';
import { definePlainCommand } from '../command/command.ts';
import { version } from '../../lib/text/version.ts';

/** `vipnat version`. */
export const printVersion = definePlainCommand({
  help: `
Example:
  vipnat version

The same as vipnat --version.
Exit status: 0 printed.`,
  flags: {},
  run: ({ stdout }) => {
    stdout(`${version}\n`);
    return Promise.resolve(exitStatuses.done);
  },
});

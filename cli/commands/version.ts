import { definePlainCommand } from '../command.ts';
import { version, exitStatuses } from '../../lib/text.ts';

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

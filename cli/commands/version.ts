import { definePlainCommand, json } from '../command.ts';
import { version, exitStatuses, formatDocument } from '../../lib/text.ts';

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

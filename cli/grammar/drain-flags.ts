import { type Command } from 'commander';

/** The words and switches of `vipnat drain`. */
export function addDrain(command: Command): Command {
  return addUndrain(command).option('--force', 'also if no other apiserver takes new connections');
}

/** Those of `vipnat undrain`. */
export function addUndrain(command: Command): Command {
  return command
    .usage('[NODE] [options]')
    .option('--dry-run', 'print what it would change, and change nothing');
}

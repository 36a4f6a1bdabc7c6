import { VipnatError } from '../../lib/text/errors.ts';
import { quoteText } from '../../config/setting.ts';
import { type CommandRow } from '../command/command.ts';
import { formatBash } from './bash.ts';
import { formatFish } from './fish.ts';
import { listCompletions, shells } from './model.ts';
import { formatZsh } from './zsh.ts';

const shellToFormat = { bash: formatBash, zsh: formatZsh, fish: formatFish } as const;

/** The script by which a shell completes all these commands. Rejects as CONFIG_INVALID for another shell. */
export async function formatCompletion(text: string, table: readonly CommandRow[]): Promise<string> {
  const shell = shells.find((one) => one === text);
  if (shell !== undefined) return shellToFormat[shell](await listCompletions(table));
  throw new VipnatError(
    'CONFIG_INVALID',
    `${quoteText(text)} is none of ${shells.join(', ')}. Example: vipnat completion bash`,
  );
}

import { VipnatError } from '../../lib/text/errors.ts';
import { quoteText } from '../../config/setting.ts';
import { formatBash } from './bash.ts';
import { formatFish } from './fish.ts';
import { listCompletions, shells } from './model.ts';
import { formatZsh } from './zsh.ts';

const shellToFormat = { bash: formatBash, zsh: formatZsh, fish: formatFish } as const;

/** `vipnat completion`: the script by which a shell completes vipnat. Throws CONFIG_INVALID for another shell. */
export function completion(text: string): string {
  const shell = shells.find((one) => one === text);
  if (shell !== undefined) return shellToFormat[shell](listCompletions());
  throw new VipnatError(
    'CONFIG_INVALID',
    `${quoteText(text)} is none of ${shells.join(', ')}. Example: vipnat completion bash`,
  );
}

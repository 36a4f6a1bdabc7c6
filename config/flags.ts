import { describeOption, optionNames } from './options.ts';
import { type Setting, type Settings, splitList } from './setting.ts';

/** Option name to what its flag was given: every text of a list option, or the last one of another. */
export type Flags = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The settings that flags give. Unknown flags are not looked at: the command line has refused them. */
export function readFlags(flags: Flags): Settings {
  const given = optionNames.flatMap((name): [string, Setting][] => {
    const texts = flags[name];
    if (texts === undefined) return [];
    const value = describeOption(name).isList ? [texts].flat().flatMap(splitList) : texts;
    return [[name, { value, from: () => '' }]];
  });
  return new Map(given);
}

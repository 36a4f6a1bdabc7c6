import { formatEndpoint } from '../../lib/address/endpoint.ts';
import {
  describeOption,
  groupToHeading,
  listChoices,
  nameFlag,
  type OptionName,
  optionNames,
  schema,
  type Values,
} from '../../config/options.ts';
import { type Flag } from '../flags/flag.ts';
import { type Command, type LoadedCommand } from './command.ts';

/** An option that a command takes: a flag of its own, or one of the configuration. */
export interface CommandOption {
  /** `--format`. */
  readonly flag: string;
  readonly takes: Flag['takes'];
  readonly isList: boolean;
  /** Whether it belongs to the configuration. */
  readonly isConfigured: boolean;
  /** What help says of it. Nobody but help needs it, so it is made when it is asked for. */
  readonly explain: () => OptionHelp;
}

/** What help says of an option. */
export interface OptionHelp {
  /** `--format FORMAT`. */
  readonly term: string;
  readonly meaning: string;
  /** The heading that it stands under. */
  readonly heading: string;
  /** Whether it makes a difference to what the help is about. */
  readonly isShown: boolean;
  /** The words that its value can be, where these are few. */
  readonly choices: readonly string[];
}

/** All options that a command takes, its own first; `kind` is what its help is about, where it has kinds. */
export function listOptions({ row, command }: LoadedCommand, kind = ''): CommandOption[] {
  const heading = nameOwnGroup(row.name);
  const own = Object.entries(command.flags).flatMap(([name, flag]) =>
    toOwnOptions(name, flag, heading, kind),
  );
  if (command.heeds === undefined) return own;
  return [...own, ...listConfigOptions(listHeeded(command, kind)), fileOption];
}

/** What a command's own help says that it does. */
export function describeCommand({ row, command }: LoadedCommand): string {
  return command.addition === undefined ? row.summary : `${row.summary}; ${command.addition}`;
}

/** The heading of the options that only this command has. */
export function nameOwnGroup(name: string): string {
  return `Options of ${name}:`;
}

/** The options of the configuration that make a difference. */
export function listHeeded(command: Command, kind: string): readonly OptionName[] {
  if (command.heeds === undefined) return [];
  return command.kinds?.get(kind) ?? command.heeds;
}

function toOwnOptions(name: string, flag: Flag, heading: string, kind: string): CommandOption[] {
  const { takes, value, meaning, isList = false, choices = [], negation, kinds } = flag;
  const isShown = kinds?.includes(kind) ?? true;
  const option = { flag: nameFlag(name), takes, isList, isConfigured: false };
  const term = { nothing: '', optional: `[=${value}]`, value: ` ${value}` }[takes];
  const explain = () => ({ term: `${option.flag}${term}`, meaning, heading, isShown, choices });
  if (negation === undefined) return [{ ...option, explain }];
  const negated = `--no-${name}`;
  const explainNegated = () => ({ ...explain(), term: negated, meaning: negation, choices: [] });
  return [
    { ...option, explain },
    { ...option, flag: negated, takes: 'nothing', explain: explainNegated },
  ];
}

/** In the order of their groups. */
function listConfigOptions(heeded: readonly OptionName[]): CommandOption[] {
  const groupToNames = Map.groupBy(optionNames, (name) => describeOption(name).group);
  const groups = Object.keys(groupToHeading) as (keyof typeof groupToHeading)[];
  return groups.flatMap((group) =>
    (groupToNames.get(group) ?? []).map((name) => ({
      flag: nameFlag(name),
      takes: 'value',
      isList: describeOption(name).isList,
      isConfigured: true,
      explain: () => ({
        ...explainConfigOption(name),
        heading: groupToHeading[group],
        isShown: heeded.includes(name),
      }),
    })),
  );
}

const fileOption: CommandOption = {
  flag: '--config',
  takes: 'value',
  isList: false,
  isConfigured: true,
  explain: () => ({
    term: '--config FILE',
    meaning: 'a YAML file with these options',
    heading: groupToHeading.host,
    isShown: true,
    choices: [],
  }),
};

/** What help says of an option of the configuration: its term, its meaning with choices and default, and these choices. */
export function explainConfigOption(name: OptionName): Pick<OptionHelp, 'term' | 'meaning' | 'choices'> {
  const { meaning, argument } = describeOption(name);
  const choices = listChoices(name);
  const flag = nameFlag(name);
  const preset = schema.parse({})[name];
  if (choices.length === 0) {
    return { term: `${flag} ${argument}`, meaning: `${meaning}${formatDefault(preset)}`, choices };
  }
  const words = choices.map((choice) => (choice === preset ? `${choice} (default)` : choice));
  const value = flag.slice(flag.lastIndexOf('-') + 1).toUpperCase();
  return { term: `${flag} ${value}`, meaning: `${meaning}: ${words.join(', ')}`, choices };
}

/** Durations are numbers of milliseconds. */
function formatDefault(preset: Values[OptionName]): string {
  if (preset === null || Array.isArray(preset)) return '';
  if (typeof preset === 'object') return ` (default: ${formatEndpoint(preset)})`;
  return ` (default: ${typeof preset === 'number' ? `${preset}ms` : preset})`;
}

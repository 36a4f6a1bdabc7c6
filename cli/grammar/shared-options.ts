import { type Command, Option } from 'commander';
import {
  describeOption,
  groupToHeading,
  nameFlag,
  type OptionName,
  optionNames,
} from '../../config/options.ts';
import { colourChoices } from '../format/text/screen.ts';

/** Commands whose words have states to colour. */
const colouredCommands = ['check', 'status', 'doctor', 'seats', 'services', 'device'];

/** `--color` and `--no-color`, for a command that takes them. */
export function addColour(command: Command): void {
  if (!colouredCommands.includes(command.name())) return;
  command
    .option('--color <value>', `when to colour: ${colourChoices.join(', ').replace(',', ' (default),')}`)
    .option('--no-color', 'the same as --color never');
}

/** The options of the configuration, in the order of their groups. */
export function addConfigOptions(command: Command): Command {
  const groups = Object.keys(groupToHeading);
  const toPlace = (name: OptionName) => groups.indexOf(describeOption(name).group);
  for (const name of optionNames.toSorted((one, other) => toPlace(one) - toPlace(other))) {
    const option = new Option(`${nameFlag(name)} <value>`);
    if (describeOption(name).isList) option.argParser(collect);
    command.addOption(option);
  }
  return command
    .option('--config <value>', 'a YAML file with these options')
    .allowUnknownOption()
    .allowExcessArguments();
}

/** Reads an option that can be repeated: all texts that its flag was given. */
export function collect(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

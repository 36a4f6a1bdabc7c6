import type { Release } from '../settings/release.ts';
import {
  loadCommands,
  type LoadedCommand,
  listOptions,
  describeCommand,
  explainConfigOption,
  type CommandOption,
} from '../../../cli/command.ts';
import { table, programSummary, programHelp } from '../../../cli/table.ts';
import { heading, fill, paragraphs, item, escapeRoff } from './roff.ts';
import { groupToHeading, optionNames, nameFlag, nameVariable } from '../../../config/options.ts';

/** vipnat.1: all commands and options, as the table of commands has them. */
export async function renderManualPage({
  version,
  epoch,
}: Pick<Release, 'version' | 'epoch'>): Promise<string> {
  const date = new Date(epoch * 1000).toISOString().slice(0, 10);
  const commands = await loadCommands(table);
  const sections = [
    `.TH VIPNAT 1 "${date}" "vipnat ${version}" "User Commands"\n.nh\n.ad l\n`,
    `${heading('Name', 1)}vipnat \\- ${fill(lowerFirst(programSummary))}\n`,
    `${heading('Synopsis', 1)}${commands.map(renderSynopsis).join('.br\n')}`,
    `${heading('Description', 1)}${fill(programSummary)}\n${paragraphs(programHelp)}`,
    `${heading('Commands', 1)}${commands.map(renderCommand).join('')}`,
    `${heading('Configuration', 1)}${renderConfiguration(commands)}`,
    `${heading('Files', 1)}${files.map(([path, meaning]) => item(path, meaning)).join('')}`,
    `${heading('See also', 1)}${seeAlso}`,
  ];
  return sections.join('');
}

/** Of the packages. */
const files = [
  ['/etc/vipnat/vipnat.yaml', 'the configuration of the service vipnat'],
  ['/usr/share/vipnat/vipnat.yaml', 'the same as this version has it (.deb)'],
  [
    '/run/vipnat/keepalived/serving',
    'the track file, which keepalived reads. 0: this node can serve the VIP. 1: it cannot',
  ],
  ['/var/lib/vipnat/endpoints.json', 'the state file: the last known apiservers, for the next start'],
] as const;

const seeAlso = `.BR iptables (8),
.BR keepalived (8),
.BR nft (8)
`;

function renderSynopsis({ row, command: { usage = '[options]' } }: LoadedCommand): string {
  return `\\fBvipnat ${row.name}\\fR ${escapeRoff(usage)}\n`;
}

function renderCommand(loaded: LoadedCommand): string {
  const { row, command } = loaded;
  const shown = listOptions(loaded).filter(({ explain }) => explain().isShown);
  const configured = shown.filter(({ isConfigured }) => isConfigured);
  const taken = configured.map(({ flag }) => flag);
  return [
    heading(`vipnat ${row.name} ${command.usage ?? '[options]'}`, 2),
    `${fill(upperFirst(`${describeCommand(loaded)}.`))}\n`,
    ...listOwnOptions(loaded).map(renderOption),
    ...(taken.length === 0
      ? []
      : [paragraphs(`This command also takes these options of the configuration: ${taken.join(', ')}.`)]),
    ...configured.flatMap(renderElsewhere),
    paragraphs(command.help),
  ].join('');
}

/** What an option of the configuration is here, where that is not what it is for the agent. */
function renderElsewhere({ flag, explain }: CommandOption): string[] {
  const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
  const { meaning } = explain();
  if (name === undefined || explainConfigOption(name).meaning === meaning) return [];
  return [paragraphs(`${flag}: ${meaning}.`)];
}

/** The options that only this command has, each once: those of its help, then those of each kind. */
function listOwnOptions(loaded: LoadedCommand): CommandOption[] {
  const { command } = loaded;
  const kinds = ['', ...(command.configOptions === undefined ? [] : (command.kinds?.keys() ?? []))];
  const shown = kinds.flatMap((kind) =>
    listOptions(loaded, kind).filter(({ isConfigured, explain }) => !isConfigured && explain().isShown),
  );
  return [...new Map(shown.map((option) => [option.flag, option])).values()];
}

function renderOption({ explain }: CommandOption): string {
  const { term, meaning } = explain();
  return item(term, meaning);
}

/** All options of the configuration, which `run` takes, by the headings of its help. */
function renderConfiguration(commands: readonly LoadedCommand[]): string {
  const options = commands.filter(({ row }) => row.name === 'run').flatMap((run) => listOptions(run));
  const groups = Object.values(groupToHeading).map((title) => {
    const members = options.filter(({ explain }) => explain().heading === title);
    return `${heading(title.replace(/:$/, ''), 2)}${members.map(renderConfigured).join('')}`;
  });
  return groups.join('');
}

function renderConfigured(option: CommandOption): string {
  const name = optionNames.find((candidate) => nameFlag(candidate) === option.flag);
  if (name === undefined) return renderOption(option);
  const places = `Environment variable: ${nameVariable(name)}. Key in a file: ${name}.`;
  return `${renderOption(option)}.br\n${fill(places)}\n`;
}

function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function lowerFirst(text: string): string {
  return (text.charAt(0).toLowerCase() + text.slice(1)).replace(/\.$/, '');
}

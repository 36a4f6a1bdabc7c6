import { type Command, type Option } from 'commander';
import { commandHelp, configTerms, describeConfigFlag, programHelp } from '../../cli/grammar/help.ts';
import { createGrammar } from '../../cli/grammar/grammar.ts';
import { commandNames } from '../../cli/grammar/invocation.ts';
import { manifestKinds } from '../../cli/generate/manifest/options.ts';
import { groupToHeading, nameFlag, nameVariable, optionNames } from '../../config/options.ts';
import { type Release } from '../settings/release.ts';
import { escapeRoff, fill, heading, item, paragraphs } from './roff.ts';

/** vipnat.1: all commands and options, as the grammar has them. */
export function renderManualPage({ version, epoch }: Pick<Release, 'version' | 'epoch'>): string {
  const date = new Date(epoch * 1000).toISOString().slice(0, 10);
  const grammar = grammarOf(undefined);
  const sections = [
    `.TH VIPNAT 1 "${date}" "vipnat ${version}" "User Commands"\n.nh\n.ad l\n`,
    `${heading('Name', 1)}vipnat \\- ${fill(lowerFirst(grammar.description()))}\n`,
    `${heading('Synopsis', 1)}${commandNames.map(renderSynopsis).join('.br\n')}`,
    `${heading('Description', 1)}${fill(grammar.description())}\n${paragraphs(programHelp)}`,
    `${heading('Commands', 1)}${commandNames.map(renderCommand).join('')}`,
    `${heading('Configuration', 1)}${renderConfiguration()}`,
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

/** The grammar with the options of one command. */
function grammarOf(word: string | undefined, nextWord?: string): Command {
  return createGrammar({ version: '', word, nextWord, onFound: () => undefined });
}

function findCommand(name: string, kind?: string): Command {
  const command = grammarOf(name, kind).commands.find((candidate) => candidate.name() === name);
  if (command === undefined) throw new TypeError(`the grammar has no command ${name}`);
  return command;
}

function renderSynopsis(name: string): string {
  return `\\fBvipnat ${name}\\fR ${escapeRoff(findCommand(name).usage())}\n`;
}

function renderCommand(name: (typeof commandNames)[number]): string {
  const command = findCommand(name);
  const kinds = name === 'manifest' ? manifestKinds.map((kind) => findCommand(name, kind)) : [];
  const own = listOwnOptions([command, ...kinds]);
  const taken = command.options.filter(({ hidden, long }) => !hidden && isConfigured(long ?? ''));
  const configured = taken.map(({ long }) => long ?? '').join(', ');
  return [
    heading(`vipnat ${name} ${command.usage()}`, 2),
    `${fill(upperFirst(`${command.description()}.`))}\n`,
    ...own.map(renderOption),
    ...(configured === ''
      ? []
      : [paragraphs(`This command also takes these options of the configuration: ${configured}.`)]),
    paragraphs(commandHelp[name]),
  ].join('');
}

/** The options that only this command has, each once. */
function listOwnOptions(commands: readonly Command[]): Option[] {
  const shown = commands.flatMap(({ options }) => options.filter(({ hidden }) => !hidden));
  const flagToOption = new Map(shown.map((option) => [option.long ?? '', option]));
  return [...flagToOption].filter(([flag]) => !isConfigured(flag)).map(([, option]) => option);
}

function isConfigured(flag: string): boolean {
  return flag === '--config' || optionNames.some((name) => nameFlag(name) === flag);
}

function renderOption({ long, flags, description }: Option): string {
  const flag = long ?? '';
  return item(configTerms.get(flag) ?? flags, describeConfigFlag(flag) ?? description);
}

/** All options of the configuration, which `run` takes, by the headings of its help. */
function renderConfiguration(): string {
  const { options } = findCommand('run');
  const groups = Object.values(groupToHeading).map((title) => {
    const members = options.filter((option) => option.helpGroupHeading === title);
    return `${heading(title.replace(/:$/, ''), 2)}${members.map(renderConfigured).join('')}`;
  });
  return groups.join('');
}

function renderConfigured(option: Option): string {
  const name = optionNames.find((candidate) => nameFlag(candidate) === option.long);
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

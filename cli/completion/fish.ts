import { type CompletedCommand, type CompletedOption, type CompletedPlace } from './model.ts';

/** The script that completes vipnat in fish. It runs no vipnat. */
export function formatFish(commands: readonly CompletedCommand[]): string {
  const kinds = commands.flatMap((command) => command.kinds);
  return `# vipnat in fish: vipnat completion fish | source
function __vipnat_at
    set -l words (commandline -opc)
    set -l place $words[2]
    if contains -- "$words[2] $words[3]" ${kinds.map(({ path }) => quote(path)).join(' ')}
        set place "$words[2] $words[3]"
    end
    test "$place" = $argv[1]
end
function __vipnat_behind
    test (count (commandline -opc)) -eq (math $argv[1] + 1)
end
complete -c vipnat -e
complete -c vipnat -f
complete -c vipnat -n '__vipnat_behind 0' -l help -d 'print help'
complete -c vipnat -n '__vipnat_behind 0' -l version -d 'print the version'
${commands.flatMap(formatCommand).join('\n')}
`;
}

function formatCommand(command: CompletedCommand): string[] {
  const { path, meaning, kinds } = command;
  return [
    `complete -c vipnat -n '__vipnat_behind 0' -a ${path} -d ${quote(meaning)}`,
    ...[command, ...kinds].flatMap(formatPlace),
  ];
}

function formatPlace({ path, words, options }: CompletedPlace): string[] {
  const at = `__vipnat_at ${quote(path)}`;
  const first = `${at}; and __vipnat_behind ${path.split(' ').length}`;
  return [
    ...(words.length === 0 ? [] : [`complete -c vipnat -n ${quote(first)} -a ${quote(words.join(' '))}`]),
    ...options.map(
      (option) =>
        `complete -c vipnat -n ${quote(at)} -l ${option.flag.slice(2)}${formatValue(option)} -d ${quote(option.meaning)}`,
    ),
  ];
}

function formatValue({ takes, value }: CompletedOption): string {
  if (takes !== 'value') return '';
  if (value.kind === 'words') return ` -x -a ${quote(value.words.join(' '))}`;
  if (value.kind === 'file') return ' -r -F';
  return value.kind === 'folder' ? " -x -a '(__fish_complete_directories)'" : ' -x';
}

function quote(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}

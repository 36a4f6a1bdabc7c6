import { type CompletedCommand, type CompletedOption } from './model.ts';

/** The script that completes vipnat in fish. It runs no vipnat. */
export function formatFish(commands: readonly CompletedCommand[]): string {
  return `# vipnat in fish: vipnat completion fish | source
function __vipnat_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end
function __vipnat_no_command
    test (count (commandline -opc)) -eq 1
end
complete -c vipnat -f
complete -c vipnat -n __vipnat_no_command -l help -d 'print help'
complete -c vipnat -n __vipnat_no_command -l version -d 'print the version'
${commands.flatMap(formatCommand).join('\n')}
`;
}

function formatCommand({ name, meaning, words, options }: CompletedCommand): string[] {
  const condition = `complete -c vipnat -n '__vipnat_command ${name}'`;
  return [
    `complete -c vipnat -n __vipnat_no_command -a ${name} -d ${quote(meaning)}`,
    ...(words.length === 0 ? [] : [`${condition} -a ${quote(words.join(' '))}`]),
    ...options.map(
      (option) => `${condition} -l ${option.flag.slice(2)}${formatValue(option)} -d ${quote(option.meaning)}`,
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

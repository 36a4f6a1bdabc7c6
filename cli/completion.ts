import { type Flag, type CommandRow, loadCommands, type LoadedCommand, listOptions } from './command.ts';

/** The script that completes vipnat in bash 4.4 and later, without the package bash-completion. It runs no vipnat. */
function formatBash(commands: readonly CompletedCommand[]): string {
  const places = listPlaces(commands);
  return `# vipnat in bash: source <(vipnat completion bash)
_vipnat() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} words= kind=none
  # bash takes = for a word of its own.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  local place=\${COMP_WORDS[1]} first=2
  if ((COMP_CWORD > 2)); then
    case "$place \${COMP_WORDS[2]}" in
      ${listKinds(commands, (path) => `'${path}'`).join(' | ')})
        place+=" \${COMP_WORDS[2]}"
        first=3
        ;;
    esac
  fi
  if ((COMP_CWORD == 1)); then
    words='${commands.map(({ path }) => path).join(' ')} --help --version'
  else
    case "$place $before" in
${places.flatMap(formatValues).join('\n')}
      *)
        case "$place" in
${places.map(formatWords).join('\n')}
        esac
        ;;
    esac
  fi
  case $kind in
    file | folder)
      compopt -o filenames
      local action=-f
      if [[ $kind == folder ]]; then action=-d; fi
      mapfile -t COMPREPLY < <(compgen "$action" -- "$word")
      ;;
    none) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;
  esac
}
complete -F _vipnat vipnat
`;
}

function formatValues({ path, options }: CompletedPlace): string[] {
  return options
    .filter(({ takes }) => takes === 'value')
    .map(({ flag, value }) => {
      const action = typeof value === 'string' ? `kind=${value}` : `words='${value.join(' ')}'`;
      return `      '${path} ${flag}') ${action} ;;`;
    });
}

function formatWords({ path, words, options }: CompletedPlace): string {
  const flags = options.map(({ flag }) => flag).join(' ');
  const first = words.length === 0 ? '' : ` && ((COMP_CWORD == first)) && words+=' ${words.join(' ')}'`;
  return `          '${path}') words='${flags}'${first} ;;`;
}

/** The script that completes vipnat in fish. It runs no vipnat. */
function formatFish(commands: readonly CompletedCommand[]): string {
  return `# vipnat in fish: vipnat completion fish | source
function __vipnat_at
    set -l words (commandline -opc)
    set -l place $words[2]
    if contains -- "$words[2] $words[3]" ${listKinds(commands, quoteFish).join(' ')}
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
    `complete -c vipnat -n '__vipnat_behind 0' -a ${path} -d ${quoteFish(meaning)}`,
    ...[command, ...kinds].flatMap(formatFishPlace),
  ];
}

function formatFishPlace({ path, words, options }: CompletedPlace): string[] {
  const at = `__vipnat_at ${quoteFish(path)}`;
  const first = `${at}; and __vipnat_behind ${path.split(' ').length}`;
  return [
    ...(words.length === 0
      ? []
      : [`complete -c vipnat -n ${quoteFish(first)} -a ${quoteFish(words.join(' '))}`]),
    ...options.map(
      (option) =>
        `complete -c vipnat -n ${quoteFish(at)} -l ${option.flag.slice(2)}${formatFishValue(option)} -d ${quoteFish(option.meaning)}`,
    ),
  ];
}

function formatFishValue({ takes, value }: CompletedOption): string {
  if (takes !== 'value') return '';
  if (typeof value !== 'string') return ` -x -a ${quoteFish(value.join(' '))}`;
  return { file: ' -r -F', folder: " -x -a '(__fish_complete_directories)'", unknown: ' -x' }[value];
}

function quoteFish(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}

/** The script that completes vipnat in zsh, sourced or as a file `_vipnat` in a folder of fpath. It runs no vipnat. */
function formatZsh(commands: readonly CompletedCommand[]): string {
  return `#compdef vipnat
# vipnat in zsh, behind compinit: source <(vipnat completion zsh)
_vipnat() {
  local -a commands
  commands=(
${commands.map(({ path, meaning }) => `    ${quoteZsh(`${path}:${meaning}`)}`).join('\n')}
  )
  if ((CURRENT == 2)); then
    _arguments '--help[print help]' '--version[print the version]'
    _describe -t commands command commands
    return
  fi
  local place=$words[2]
  shift words
  ((CURRENT -= 1))
  if ((CURRENT > 2)); then
    case "$place $words[2]" in
      (${listKinds(commands, quoteZsh).join(' | ')})
        place+=" $words[2]"
        shift words
        ((CURRENT -= 1))
        ;;
    esac
  fi
  case $place in
${listPlaces(commands).map(formatZshPlace).join('\n')}
  esac
}
if [[ $funcstack[1] == _vipnat ]]; then
  _vipnat "$@"
else
  compdef _vipnat vipnat
fi
`;
}

function formatZshPlace({ path, words, options }: CompletedPlace): string {
  const specs = [
    ...(words.length === 0 ? [] : [quoteZsh(`1:word:(${words.join(' ')})`)]),
    ...options.map(formatOption),
  ];
  return `    ${quoteZsh(path)})\n      _arguments ${specs.join(' \\\n        ')}\n      ;;`;
}

function formatOption({ flag, meaning, takes, value }: CompletedOption): string {
  const text = `[${meaning.replaceAll(/[[\]\\]/g, String.raw`\$&`)}]`;
  if (takes === 'nothing') return quoteZsh(`${flag}${text}`);
  if (takes === 'optional') return quoteZsh(`${flag}=-${text}::value: `);
  return quoteZsh(`*${flag}=${text}:value:${formatZshValue(value)}`);
}

function formatZshValue(value: CompletedOption['value']): string {
  if (typeof value !== 'string') return `(${value.join(' ')})`;
  return { file: '_files', folder: '_files -/', unknown: ' ' }[value];
}

function quoteZsh(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The shells that can be completed in. */
export const shells = ['bash', 'zsh', 'fish'] as const;

/** One of shells. */
export type Shell = (typeof shells)[number];

interface CompletedOption extends Pick<Flag, 'takes' | 'meaning'> {
  readonly flag: string;
  /** What its value can be: words, a path, or what no shell knows. */
  readonly value: readonly string[] | 'file' | 'folder' | 'unknown';
}

/** What can follow certain words of the command line. */
interface CompletedPlace {
  /** The words after `vipnat`: `status`, `manifest systemd`. */
  readonly path: string;
  /** The next word, unless it is an option. */
  readonly words: readonly string[];
  /** The options that the help of these words lists. */
  readonly options: readonly CompletedOption[];
}

interface CompletedCommand extends CompletedPlace {
  readonly meaning: string;
  /** Its kinds, where these have words or options of their own. */
  readonly kinds: readonly CompletedPlace[];
}

/** All commands with the options that their help lists. `help` is followed by its topics, the words of all commands, and of their kinds. */
async function listCompletions(table: readonly CommandRow[]): Promise<CompletedCommand[]> {
  const found = (await loadCommands(table)).map(toCompleted);
  const words = found.map(({ path }) => path);
  const withKinds = found.filter(({ kinds }) => kinds.length > 0);
  return found.map((one) => {
    const toTopic = ({ path, words }: CompletedPlace) => ({ ...one, path: `help ${path}`, words });
    if (one.path !== 'help') return one;
    const topics = one.words.filter((word) => !words.includes(word));
    return { ...one, words: [...words, ...topics], kinds: withKinds.map(toTopic) };
  });
}

function toCompleted(loaded: LoadedCommand): CompletedCommand {
  const { row, command } = loaded;
  const words = command.words?.choices ?? [];
  const kinds = command.configOptions === undefined ? [] : [...(command.kinds?.keys() ?? [])];
  const toPlace = (path: string, kind = '') => ({ path, words: [], options: listCompleted(loaded, kind) });
  return {
    ...{ ...toPlace(row.name), words, meaning: row.summary },
    kinds: kinds.map((kind) => toPlace(`${row.name} ${kind}`, kind)),
  };
}

/** All places: the commands and their kinds. */
function listPlaces(commands: readonly CompletedCommand[]): CompletedPlace[] {
  return commands.flatMap((command) => [command, ...command.kinds]);
}

function listKinds(commands: readonly CompletedCommand[], quote: (path: string) => string): string[] {
  return commands.flatMap(({ kinds }) => kinds.map(({ path }) => quote(path)));
}

function listCompleted(loaded: LoadedCommand, kind: string): CompletedOption[] {
  const options = listOptions(loaded, kind).flatMap(({ flag, takes, explain }): CompletedOption[] => {
    const { term, meaning, isShown, choices } = explain();
    return isShown ? [{ flag, meaning, takes, value: findValue(term, choices) }] : [];
  });
  return [...options, { flag: '--help', meaning: 'print this help', takes: 'nothing', value: 'unknown' }];
}

function findValue(term: string, words: readonly string[]): CompletedOption['value'] {
  if (words.length > 0) return words;
  if (/ (?:FILE|PATH)$/.test(term)) return 'file';
  return term.endsWith(' FOLDER') ? 'folder' : 'unknown';
}

const shellToFormat = { bash: formatBash, zsh: formatZsh, fish: formatFish } as const;

/** The script by which a shell completes all these commands. */
export async function formatCompletion(shell: Shell, table: readonly CommandRow[]): Promise<string> {
  return shellToFormat[shell](await listCompletions(table));
}

import { type CompletedCommand, type CompletedOption, type CompletedPlace, listPlaces } from './model.ts';

/** The script that completes vipnat in bash 4.4 and later, without the package bash-completion. It runs no vipnat. */
export function formatBash(commands: readonly CompletedCommand[]): string {
  const places = listPlaces(commands);
  const kinds = commands.flatMap((command) => command.kinds);
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
      ${kinds.map(({ path }) => `'${path}'`).join(' | ')})
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
    .map(({ flag, value }) => `      '${path} ${flag}') ${formatValue(value)} ;;`);
}

function formatValue(value: CompletedOption['value']): string {
  return value.kind === 'words' ? `words='${value.words.join(' ')}'` : `kind=${value.kind}`;
}

function formatWords({ path, words, options }: CompletedPlace): string {
  const flags = options.map(({ flag }) => flag).join(' ');
  const first = words.length === 0 ? '' : ` && ((COMP_CWORD == first)) && words+=' ${words.join(' ')}'`;
  return `          '${path}') words='${flags}'${first} ;;`;
}

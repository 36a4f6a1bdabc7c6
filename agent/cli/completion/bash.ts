import { type CompletedCommand, type CompletedOption } from './model.ts';

/** The script that completes vipnat in bash 4.4 and later, without the package bash-completion. It runs no vipnat. */
export function formatBash(commands: readonly CompletedCommand[]): string {
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
  if ((COMP_CWORD == 1)); then
    words='${commands.map(({ name }) => name).join(' ')} --help --version'
  else
    case "\${COMP_WORDS[1]} $before" in
${commands.flatMap(formatValues).join('\n')}
      *)
        case "\${COMP_WORDS[1]}" in
${commands.map(formatWords).join('\n')}
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

function formatValues({ name, options }: CompletedCommand): string[] {
  return options
    .filter(({ takes }) => takes === 'value')
    .map(({ flag, value }) => `      '${name} ${flag}') ${formatValue(value)} ;;`);
}

function formatValue(value: CompletedOption['value']): string {
  return value.kind === 'words' ? `words='${value.words.join(' ')}'` : `kind=${value.kind}`;
}

function formatWords({ name, words, options }: CompletedCommand): string {
  const flags = options.map(({ flag }) => flag);
  return `          ${name}) words='${[...words, ...flags].join(' ')}' ;;`;
}

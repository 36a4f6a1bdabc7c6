import { type CompletedCommand, type CompletedOption, type CompletedPlace, listPlaces } from './model.ts';

/** The script that completes vipnat in zsh, sourced or as a file `_vipnat` in a folder of fpath. It runs no vipnat. */
export function formatZsh(commands: readonly CompletedCommand[]): string {
  const kinds = commands.flatMap((command) => command.kinds);
  return `#compdef vipnat
# vipnat in zsh, behind compinit: source <(vipnat completion zsh)
_vipnat() {
  local -a commands
  commands=(
${commands.map(({ path, meaning }) => `    ${quote(`${path}:${meaning}`)}`).join('\n')}
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
      (${kinds.map(({ path }) => quote(path)).join(' | ')})
        place+=" $words[2]"
        shift words
        ((CURRENT -= 1))
        ;;
    esac
  fi
  case $place in
${listPlaces(commands).map(formatPlace).join('\n')}
  esac
}
if [[ $funcstack[1] == _vipnat ]]; then
  _vipnat "$@"
else
  compdef _vipnat vipnat
fi
`;
}

function formatPlace({ path, words, options }: CompletedPlace): string {
  const specs = [
    ...(words.length === 0 ? [] : [quote(`1:word:(${words.join(' ')})`)]),
    ...options.map(formatOption),
  ];
  return `    ${quote(path)})\n      _arguments ${specs.join(' \\\n        ')}\n      ;;`;
}

function formatOption({ flag, meaning, takes, value }: CompletedOption): string {
  const text = `[${meaning.replaceAll(/[[\]\\]/g, String.raw`\$&`)}]`;
  if (takes === 'nothing') return quote(`${flag}${text}`);
  if (takes === 'optional') return quote(`${flag}=-${text}::value: `);
  return quote(`*${flag}=${text}:value:${formatValue(value)}`);
}

function formatValue(value: CompletedOption['value']): string {
  if (value.kind === 'words') return `(${value.words.join(' ')})`;
  if (value.kind === 'file') return '_files';
  return value.kind === 'folder' ? '_files -/' : ' ';
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

import { type CompletedCommand, type CompletedOption } from './model.ts';

/** The script that completes vipnat in zsh, sourced or as a file `_vipnat` in a folder of fpath. It runs no vipnat. */
export function formatZsh(commands: readonly CompletedCommand[]): string {
  return `#compdef vipnat
# vipnat in zsh, behind compinit: source <(vipnat completion zsh)
_vipnat() {
  local -a commands
  commands=(
${commands.map(({ name, meaning }) => `    ${quote(`${name}:${meaning}`)}`).join('\n')}
  )
  if ((CURRENT == 2)); then
    _describe -t commands command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT -= 1))
  case $command in
${commands.map(formatCommand).join('\n')}
  esac
}
if [[ $funcstack[1] == _vipnat ]]; then
  _vipnat "$@"
else
  compdef _vipnat vipnat
fi
`;
}

function formatCommand({ name, words, options }: CompletedCommand): string {
  const specs = [
    ...(words.length === 0 ? [] : [quote(`1:${name}:(${words.join(' ')})`)]),
    ...options.map(formatOption),
  ];
  return `    ${name})\n      _arguments ${specs.join(' \\\n        ')}\n      ;;`;
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

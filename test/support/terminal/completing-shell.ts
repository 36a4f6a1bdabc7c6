import type { Shell } from '../../../cli/completion.ts';
import { mkdtempSync, mkdirSync, writeFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { spawnSync } from 'node:child_process';

/** What a shell made of one line that somebody typed with the key TAB in it. */
interface TypedLine {
  /** What vipnat would have got, each word in `<>`. */
  readonly words: string;
  /** What the shell listed below the line, because there was more than one candidate. */
  readonly listed: readonly string[];
}

/**
 * An interactive shell on a terminal that loads vipnat's completion from where docs/install.md puts it. Its working folder has
 * files with hostile names. A stand-in named vipnat prints the words that it gets.
 */
export class CompletingShell {
  readonly folder: string;
  readonly #shell: Shell;
  readonly #home = mkdtempSync(join(tmpdir(), 'vipnat-completion-'));

  constructor(shell: Shell, script: string) {
    this.#shell = shell;
    this.folder = join(this.#home, 'work');
    mkdirSync(join(this.folder, 'some-folder'), { recursive: true });
    for (const name of ['my vipnat.yaml', 'x$(touch executed).yaml', 'some-file'])
      writeFileSync(join(this.folder, name), '');
    const path = join(this.#home, shellToFile[shell]);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, script);
    mkdirSync(join(this.#home, 'bin'));
    writeFileSync(join(this.#home, 'bin', 'vipnat'), standIn, { mode: 0o755 });
  }

  /** Types lines behind `vipnat `, in one session; `\t` is the key. Throws what was on the terminal where a line got lost. */
  type(lines: readonly string[]): TypedLine[] {
    const start = 'stty rows 200 columns 200; exec ' + shellToStart[this.#shell];
    const typed = lines.map((line) => `vipnat ${line}`);
    const input = [...shellToSetup[this.#shell], 'vipnat', ...typed, 'exit', ''].join('\n');
    const words = ['--quiet', '--command', start, '/dev/null'];
    const { stdout } = spawnSync('script', words, { ...this.#options, input, timeout: 110_000 });
    // The listing for a line is printed behind the answer to the line before.
    const [, first, ...answers] = removeControls(stdout).split(/^<got>/m);
    if (answers.length !== lines.length) throw new Error(`${this.#shell} answered otherwise:\n${stdout}`);
    return answers.map((answer, index) => ({
      words: (/^.*/.exec(answer)?.[0] ?? '').trimEnd(),
      listed: readListing([first, ...answers][index] ?? ''),
    }));
  }

  /** The candidates for the last word of a line: what the shell lists, or the only one, which it inserts. */
  complete(lines: readonly string[]): string[][] {
    if (this.#shell === 'fish') return lines.map((line) => this.#askFish(line));
    return this.type(lines.map((line) => `${line}\t`)).map(({ words, listed }) =>
      listed.length > 0 ? [...listed] : [/<([^<>]*)>$/.exec(words)?.[1] ?? ''],
    );
  }

  remove(): void {
    rmSync(this.#home, { recursive: true });
  }

  /** fish pages long lists; it prints the candidates for a line where that is asked for. */
  #askFish(line: string): string[] {
    const asked = ['-c', 'complete -C $argv[1]', `vipnat ${line}`];
    const { stdout } = spawnSync('fish', asked, this.#options);
    const words = stdout.split('\n').map((text) => text.replace(/\t.*/, ''));
    return words.filter((word) => word !== '').map((word) => word.replace(/^--[a-z-]+=/, ''));
  }

  get #options() {
    const path = `${join(this.#home, 'bin')}:${process.env['PATH'] ?? ''}`;
    const env = { PATH: path, TERM: 'dumb', HOME: this.#home, LC_ALL: 'C.UTF-8' };
    return { cwd: this.folder, encoding: 'utf8', env } as const;
  }
}

/** Below the home folder. */
const shellToFile: Readonly<Record<Shell, string>> = {
  bash: 'script',
  zsh: 'functions/_vipnat',
  fish: '.config/fish/completions/vipnat.fish',
};

const shellToStart: Readonly<Record<Shell, string>> = {
  bash: 'bash --norc --noprofile -i',
  zsh: 'zsh -f -i',
  fish: 'fish -i',
};

/** What stands for vipnat: fish loads completions only of a command that is there. */
const standIn = `#!/bin/sh
printf '<%s>' got "$@"
echo
`;

const shellToSetup: Readonly<Record<Shell, readonly string[]>> = {
  bash: [
    'source ~/script',
    "PS1='> '; bind 'set show-all-if-ambiguous on'",
    "bind 'set page-completions off'; bind 'set completion-query-items 0'; bind 'set enable-bracketed-paste off'",
  ],
  zsh: [
    "PS1='> '; fpath=(~/functions $fpath)",
    'autoload -Uz compinit; compinit -u -D; setopt no_list_ambiguous no_prompt_sp',
    "LISTMAX=0; zstyle ':completion:*' verbose no",
  ],
  fish: [],
};

/** What a terminal shows as text: without what moves its cursor. */
function removeControls(text: string): string {
  return text.replaceAll(/\u001b\[[?\d;]*[a-zA-Z]|[\u0000-\u0009\u000b-\u001f]/g, '');
}

/** The words below the line that was typed; the line itself is printed before and behind them. */
function readListing(text: string): string[] {
  const [, ...lines] = text.split('\n');
  return lines.filter((line) => !line.includes('vipnat')).flatMap((line) => line.split(' ').filter(Boolean));
}

import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { TemporaryFolder } from '../../network/at-end.ts';

/** Whatever is renamed to this name may be empty after a power failure, unless it was flushed before. */
const stateFile = 'endpoints.json';

/** `[pid 7] fsync(17</run/vipnat-state/endpoints.json.12>) = 0`, as strace --decode-fds prints it. */
const flushed = /\bf(?:data)?sync\(\d+<([^>]*)>\)\s*= 0/;
const renamed = /\brename(?:at|at2)?\([^"]*"([^"]*)"[^"]*"([^"]*)"[^)]*\)\s*= 0/;

/**
 * Watches by strace how a process replaces its state: a file that was not flushed before it is renamed into place can be empty after
 * a power failure, which no test in memory shows.
 */
export class StateWatch {
  readonly #folder = new TemporaryFolder('strace');

  /** To be put before the command: its process stays the one that is started. */
  get wrapper(): readonly string[] {
    return [
      ...[
        '/usr/bin/strace',
        '--output-append-mode',
        '--daemonize',
        '--follow-forks',
        '--seccomp-bpf',
        '--decode-fds=path',
        '--string-limit=200',
      ],
      ...['--trace=fsync,fdatasync,rename,renameat,renameat2', '--quiet=all', `--output=${this.#file}`],
    ];
  }

  /** What was renamed into place without having been flushed: a sentence for each; and one when nothing was seen at all. */
  listUnsafe(): string[] {
    if (!existsSync(this.#file)) return ['strace does not watch'];
    return judgeTrace(joinCalls(readFileSync(this.#file, 'utf8').split('\n')));
  }

  remove(): void {
    this.#folder.remove();
  }

  get #file(): string {
    return join(this.#folder.path, 'trace');
  }
}

/** Calls as if nothing came in between: strace prints a call in two parts when another thread's comes before its end. */
function joinCalls(lines: readonly string[]): string[] {
  const threadToStart = new Map<string, string>();
  return lines.map((line) => {
    const [, thread = ''] = /^(\d+) /.exec(line) ?? [];
    const [, start] = /^(.*) <unfinished \.\.\.>$/.exec(line) ?? [];
    if (start !== undefined) threadToStart.set(thread, start);
    const [, end] = /<\.\.\. \w+ resumed>(.*)$/.exec(line) ?? [];
    return end === undefined ? line : `${threadToStart.get(thread) ?? ''}${end}`;
  });
}

function judgeTrace(lines: readonly string[]): string[] {
  const flushes = new Set<string>();
  const drafts: { readonly name: string; readonly isSafe: boolean }[] = [];
  for (const line of lines) {
    const file = flushed.exec(line)?.[1];
    if (file !== undefined) flushes.add(basename(file));
    const [, from = '', to = ''] = renamed.exec(line) ?? [];
    // By way of the open folder, so that paths say nothing; a draft's name is like no other.
    if (basename(to) === stateFile) drafts.push({ name: from, isSafe: flushes.has(basename(from)) });
  }
  if (drafts.length === 0) return ['no state was seen to be written'];
  return drafts
    .filter(({ isSafe }) => !isSafe)
    .map(({ name }) => `${name} became the state and was not flushed`);
}

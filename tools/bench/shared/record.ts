import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { mkdirSync, appendFileSync, writeFileSync, readFileSync } from 'node:fs';

const folder = fileURLToPath(new URL('../../../.cache/bench', import.meta.url));

/** What a bench has measured, kept between its runs: one line of JSON for each round, in .cache/bench. */
export class Rounds<Round> {
  readonly #file: string;

  /** Those of one bench. */
  constructor(bench: string) {
    this.#file = join(folder, `${bench}.jsonl`);
  }

  /** All on record, the oldest first. A line that was cut off counts for nothing. */
  read(): Round[] {
    return this.#readText()
      .split('\n')
      .flatMap((line) => {
        try {
          return [JSON.parse(line) as Round];
        } catch {
          return [];
        }
      });
  }

  /** Adds one. */
  append(round: Round): void {
    mkdirSync(folder, { recursive: true });
    appendFileSync(this.#file, renderLine(round));
  }

  /** Leaves those out that are to be measured again. */
  remove(isOld: (round: Round) => boolean): void {
    const left = this.read().filter((round) => !isOld(round));
    mkdirSync(folder, { recursive: true });
    writeFileSync(this.#file, left.map(renderLine).join(''));
  }

  #readText(): string {
    try {
      const text = readFileSync(this.#file, 'utf8');
      // Whatever ended in the middle of a line must not spoil the next one.
      if (text !== '' && !text.endsWith('\n')) appendFileSync(this.#file, '\n');
      return text;
    } catch {
      return '';
    }
  }
}

function renderLine(round: unknown): string {
  return `${JSON.stringify(round)}\n`;
}

import { NonsenseError } from './errors.ts';

/** Cuts text that comes in pieces into lines, none of them longer than it may be. */
export class LineReader {
  readonly #maxLength: number;
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(maxLength: number, onLine: (line: string) => void) {
    this.#maxLength = maxLength;
    this.#onLine = onLine;
  }

  /**
   * Takes the next piece, and hands on every line that it completes. Empty ones are left out.
   * @throws NonsenseError when a line is too long.
   */
  read(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') this.#onLine(line);
    if (this.#rest.length > this.#maxLength) throw new NonsenseError('what it sends has no end');
  }

  /** No more comes: what is left is a line too. */
  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}

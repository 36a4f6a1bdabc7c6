import type { ChildProcess } from 'node:child_process';
import { type Interface, createInterface } from 'node:readline';

/** A program that answers each line of JSON with one. It ends with its standard input. */
export class Dialogue {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #answers: ((line: string | null) => void)[] = [];
  #hasEnded = false;

  private constructor(child: ChildProcess) {
    if (child.stdout === null) throw new Error('a program without an output');
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout });
    this.#lines.on('line', (line) => this.#answers.shift()?.(line));
    this.#lines.on('close', () => {
      this.#hasEnded = true;
      for (const answer of this.#answers.splice(0)) answer(null);
    });
  }

  /** One that says a first line by itself when it is ready. */
  static async open(child: ChildProcess): Promise<Dialogue> {
    const dialogue = new Dialogue(child);
    await dialogue.#hear();
    return dialogue;
  }

  /** Asks; rejects when the program ends without an answer. */
  async ask(question: object): Promise<unknown> {
    const answer = this.#hear();
    this.#child.stdin?.write(`${JSON.stringify(question)}\n`);
    return await answer;
  }

  /** Ends the program. */
  close(): void {
    this.#child.stdin?.end();
  }

  async #hear(): Promise<unknown> {
    const line = await new Promise<string | null>((resolve) => {
      if (this.#hasEnded) resolve(null);
      else this.#answers.push(resolve);
    });
    if (line === null) throw new Error('the program has ended');
    return JSON.parse(line);
  }
}

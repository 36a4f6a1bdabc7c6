/** What a person sees: numbered steps, the answer in the heading, indented lines under it. */
export class Screen {
  /** What was expected and did not happen, in the order of the steps. */
  readonly failures: string[] = [];
  #step = 0;

  /** Begins a step with its answer. */
  step(answer: string): void {
    this.#step += 1;
    process.stdout.write(`\n${this.#step}. ${answer}\n`);
  }

  /** Text under a step, without the blank lines in it. */
  show(text: string): void {
    for (const line of text.split('\n').filter((line) => line !== '')) {
      process.stdout.write(`   ${line}\n`);
    }
  }

  /** Notes an expectation that failed and says so at once. */
  expect(isMet: boolean, expectation: string): void {
    if (isMet) return;
    this.failures.push(expectation);
    this.show(`FAILED: ${expectation}`);
  }
}

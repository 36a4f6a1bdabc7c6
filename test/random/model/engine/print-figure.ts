/** A figure for people: Jest's standard output is thrown away by scripts/test. */
export function printFigure(text: string): void {
  process.stderr.write(`model: ${text}\n`);
}

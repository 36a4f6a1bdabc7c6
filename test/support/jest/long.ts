/** Whether the layers prove at length: `scripts/test model --long`. */
export const isLong = process.env['TEST_LONG'] === 'true';

/** A figure for people: Jest's standard output is thrown away by scripts/test. */
export function printFigure(text: string): void {
  process.stderr.write(`model: ${text}\n`);
}

import { layerToPurpose } from './parts.ts';

/** What came of one step: one or more parts that ran together. */
export interface Row {
  readonly layer: string;
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly flaky: number;
  readonly seconds: number;
}

/** The sum of rows; seconds are those of the rows. */
export function sumRows(rows: readonly Row[]): Omit<Row, 'layer' | 'name'> {
  const sum = (pick: (row: Row) => number) => rows.reduce((total, row) => total + pick(row), 0);
  return {
    passed: sum(({ passed }) => passed),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    flaky: sum(({ flaky }) => flaky),
    seconds: sum(({ seconds }) => seconds),
  };
}

/** A table for people: a row for each step, and one for all. */
export function formatTable(rows: readonly Row[], allSeconds: number): string {
  const titles = ['', 'passed', 'failed', 'skipped', 'flaky', 'seconds'];
  const all = { ...sumRows(rows), seconds: allSeconds, name: 'all' };
  const lines = [...rows, all].map((row) => [
    row.name,
    ...[row.passed, row.failed, row.skipped, row.flaky, row.seconds].map(String),
    'layer' in row ? (layerToPurpose.get(row.layer) ?? '') : '',
  ]);
  const width = Math.max(...lines.map(([name = '']) => name.length));
  const format = ([name = '', ...cells]: readonly string[]) => {
    const purpose = cells.length > 5 ? `  ${cells.pop() ?? ''}` : '';
    return `${name.padEnd(width)} ${cells.map((cell) => cell.padStart(7)).join(' ')}${purpose}`.trimEnd();
  };
  return [titles, ...lines].map(format).join('\n');
}

/** The last line of a run: `N passed, N failed`, and what was skipped, if anything. */
export function formatSummary(sum: Pick<Row, 'passed' | 'failed' | 'skipped'>): string {
  const { passed, failed, skipped } = sum;
  return `${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`;
}

import { clean, layOutText, paint, type Part } from './lay-out.ts';
import { type Screen } from './screen.ts';

/** A column: its title, and on which side its cells stand. */
export interface Column {
  readonly title: string;
  /** Numbers stand to the right. */
  readonly isRight?: true;
}

/** Rows below the titles of their columns, each as its lines: what does not fit of the last column stands below its beginning. */
export function layOutTable(
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  screen: Screen,
  margin = '',
): { readonly titles: string; readonly rows: readonly (readonly string[])[] } {
  const cleaned = rows.map((row) => row.map(({ text, tone }) => ({ text: clean(text, screen), tone })));
  const titles = columns.map(({ title }) => ({ text: title }));
  const last = columns.length - 1;
  const widths = columns.map((_, column) =>
    Math.max(...[titles, ...cleaned].map((row) => row[column]?.text.length ?? 0)),
  );
  const left = margin.length + widths.slice(0, last).reduce((sum, width) => sum + width + 2, 0);
  const format = (row: readonly Part[], on: Screen) => {
    const cells = row.slice(0, last).map(({ text, tone }, column) => {
      const gap = ' '.repeat((widths[column] ?? 0) - text.length);
      return columns[column]?.isRight === true ? `${gap}${text}  ` : `${paint(text, tone, screen)}${gap}  `;
    });
    const { text = '', tone } = row[last] ?? {};
    const [first = '', ...more] = layOutText(' '.repeat(left), text, on);
    const lines = [`${margin}${cells.join('')}${paint(first.slice(left), tone, screen)}`, ...more];
    return lines.map((line) => line.trimEnd());
  };
  const titleLine = format(titles, { ...screen, width: null }).join('');
  return { titles: titleLine, rows: cleaned.map((row) => format(row, screen)) };
}

/** The same as lines, one row after the other. */
export function formatTable(...options: Parameters<typeof layOutTable>): string[] {
  const { titles, rows } = layOutTable(...options);
  return [titles, ...rows.flat()];
}

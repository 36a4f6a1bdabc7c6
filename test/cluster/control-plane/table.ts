/** Text in columns, the first row as a heading; numbers to the right. */
export function formatTable(title: string, rows: readonly (readonly (string | number)[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => String(row[column] ?? '').length)),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, column) => {
        const text = String(cell);
        const width = widths[column] ?? 0;
        return typeof cell === 'number' ? text.padStart(width) : text.padEnd(width);
      })
      .join('  ')
      .trimEnd(),
  );
  return ['', title, ...lines, '', ''].join('\n');
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds === 0) return '0';
  return milliseconds < 1000 ? `${milliseconds.toFixed(0)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** Units of Go's time.ParseDuration, as milliseconds. Those below a millisecond are left out. */
const unitToMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * Reads a duration as Go does (`300ms`, `1m30s`, `1.5s`, `0`), as whole milliseconds. Answers null for anything else, and for
 * negative ones and parts of a millisecond.
 */
export function parseDuration(text: string): number | null {
  if (text === '0') return 0;
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return null;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  const sum = parts.reduce((total, [, count, unit = '']) => total + Number(count) * (unitToMs[unit] ?? 0), 0);
  // 1.1 s are 1100.0000000000002 ms.
  const rounded = Math.round(sum);
  return Math.abs(sum - rounded) < 1e-6 && Number.isSafeInteger(rounded) ? rounded : null;
}

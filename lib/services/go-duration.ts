const unitToMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** A duration as Go and Kubernetes write it, `300ms`, `1m30s` or `1.5s`, in milliseconds; null for any other text, and for parts of a millisecond. Pure. */
export function parseGoDuration(text: string): number | null {
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+$/.test(text)) return null;
  const parts = [...text.matchAll(/([\d.]+)(ms|s|m|h)/g)];
  const ms = parts.reduce(
    (sum, [, digits = '', unit = '']) => sum + Number(digits) * (unitToMs[unit] ?? 0),
    0,
  );
  const whole = Math.round(ms);
  // 1.1 s is 1100.0000000000002 ms in binary.
  return Math.abs(ms - whole) < 1e-6 ? whole : null;
}

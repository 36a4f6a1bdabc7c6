const unitToMs: Readonly<Record<string, bigint>> = { ms: 1n, s: 1000n, m: 60_000n, h: 3_600_000n };

/** Digits after the point: the sum is counted in parts of a millisecond that are so small. */
const places = 9;
const millisecond = 10n ** BigInt(places);

/** A duration as Go and Kubernetes write it, `300ms`, `1m30s` or `1.5s`, in milliseconds; null for any other text, and for parts of a millisecond. Pure. */
export function parseGoDuration(text: string): number | null {
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+$/.test(text)) return null;
  const parts = [...text.matchAll(/(\d+)(?:\.(\d+))?(ms|s|m|h)/g)];
  const sum = parts.reduce(
    (all, [, whole = '', fraction = '', unit = '']) =>
      all + BigInt(`${whole}${fraction.padEnd(places, '0')}`) * (unitToMs[unit] ?? 0n),
    0n,
  );
  return sum % millisecond === 0n ? Number(sum / millisecond) : null;
}

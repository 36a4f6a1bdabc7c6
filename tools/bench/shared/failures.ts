/** How many failures there were of each kind. */
export function countErrors(failures: readonly { readonly error: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { error } of failures) counts[error] = (counts[error] ?? 0) + 1;
  return counts;
}

/** The same in words, in brackets and behind a space; empty without any. */
export function describeErrors(errors: Readonly<Record<string, number>>): string {
  const words = Object.entries(errors).map(([error, count]) => `${count} ${error}`);
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

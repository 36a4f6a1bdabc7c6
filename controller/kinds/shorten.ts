/** The first three of some names, and how many more there are. */
export function shorten(names: readonly string[]): string {
  const rest = names.length - 3;
  return `${names.slice(0, 3).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

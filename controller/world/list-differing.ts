/** The texts that one of two lists has and the other has not, each once. Pure. */
export function listDiffering(old: readonly string[], now: readonly string[]): string[] {
  return [...new Set([...old, ...now])].filter((text) => old.includes(text) !== now.includes(text));
}

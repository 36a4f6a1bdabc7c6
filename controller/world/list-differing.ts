/** The texts that one of two lists has and the other has not, each once. Its cost grows with their lengths, not with the square. Pure. */
export function listDiffering(old: readonly string[], now: readonly string[]): string[] {
  const [were, are] = [new Set(old), new Set(now)];
  return [...[...were].filter((text) => !are.has(text)), ...[...are].filter((text) => !were.has(text))];
}

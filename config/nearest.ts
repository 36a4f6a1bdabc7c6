/**
 * The candidate that a mistyped word most likely meant, or null when none is near. Case and `-`, `_` count
 * little: `proxy_mode` is near to `proxyMode`.
 */
export function findNearest(word: string, candidates: readonly string[]): string | null {
  const plain = simplify(word);
  const distances = candidates.map((candidate) => ({
    candidate,
    distance: countEdits(plain, simplify(candidate)),
  }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  if (nearest === undefined) return null;
  // A third of the letters: what commander and git take for a slip of the finger rather than another word.
  const limit = Math.max(1, Math.floor(Math.max(plain.length, simplify(nearest.candidate).length) / 3));
  return nearest.distance <= limit ? nearest.candidate : null;
}

function simplify(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '').slice(0, 40);
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
function countEdits(from: string, to: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped = from[row - 2] === to[column - 1] && from[row - 1] === to[column - 2];
      current[column] = Math.min(
        at(previous, column) + 1,
        at(current, column - 1) + 1,
        at(previous, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(beforePrevious, column - 2) + 1 : Infinity,
      );
    }
    beforePrevious = previous;
    previous = current;
  }
  return at(previous, to.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity;
}

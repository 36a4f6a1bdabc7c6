import { type ReservedRange } from './judge-pools.ts';
import { formatRange } from '../../lib/services/ranges.ts';

/** Addresses that others have, by where that is known from. One change costs what it changes. */
export class Reservations {
  readonly #sourceToRanges = new Map<string, readonly ReservedRange[]>();
  /** Addresses to how many sources report them. */
  readonly #reported = new Map<string, number>();

  /** What a source says now, in place of what it said before. Answers what came and what went. */
  put(source: string, ranges: readonly ReservedRange[]): readonly ReservedRange[] {
    const before = this.#sourceToRanges.get(source) ?? [];
    if (ranges.length === 0) this.#sourceToRanges.delete(source);
    else this.#sourceToRanges.set(source, ranges);
    this.#count(before, -1);
    this.#count(ranges, 1);
    const [were, are] = [before, ranges].map((each) => new Set(each.map(toText)));
    return [
      ...before.filter((each) => are?.has(toText(each)) !== true),
      ...ranges.filter((each) => were?.has(toText(each)) !== true),
    ];
  }

  /** Whether a Node reports an address, in canonical text, as its own. */
  isReported(address: string): boolean {
    return this.#reported.has(address);
  }

  /** All of them. */
  *[Symbol.iterator](): Generator<ReservedRange> {
    for (const ranges of this.#sourceToRanges.values()) yield* ranges;
  }

  #count(ranges: readonly ReservedRange[], by: 1 | -1): void {
    for (const { range } of ranges.filter(({ isReported }) => isReported)) {
      const text = formatRange(range);
      const count = (this.#reported.get(text) ?? 0) + by;
      if (count === 0) this.#reported.delete(text);
      else this.#reported.set(text, count);
    }
  }
}

function toText({ range, owner }: ReservedRange): string {
  return `${formatRange(range)} ${owner}`;
}

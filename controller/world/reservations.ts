import { type ReservedRange } from './judge-pools.ts';
import { formatRange } from '../../lib/services/ranges.ts';

/** Addresses that others have, by where that is known from. One change costs what it changes. */
export class Reservations {
  readonly #sourceToRanges = new Map<string, readonly ReservedRange[]>();

  /** What a source says now, in place of what it said before. Answers what came and what went. */
  put(source: string, ranges: readonly ReservedRange[]): readonly ReservedRange[] {
    const before = this.#sourceToRanges.get(source) ?? [];
    if (ranges.length === 0) this.#sourceToRanges.delete(source);
    else this.#sourceToRanges.set(source, ranges);
    const [were, are] = [before, ranges].map((each) => new Set(each.map(toText)));
    return [
      ...before.filter((each) => are?.has(toText(each)) !== true),
      ...ranges.filter((each) => were?.has(toText(each)) !== true),
    ];
  }

  /** All of them. */
  *[Symbol.iterator](): Generator<ReservedRange> {
    for (const ranges of this.#sourceToRanges.values()) yield* ranges;
  }
}

function toText({ range, owner }: ReservedRange): string {
  return `${formatRange(range)} ${owner}`;
}

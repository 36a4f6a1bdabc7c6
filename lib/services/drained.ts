/**
 * Which nodes are to hold no seats of a pool: an annotation of the pool. `w1` is to hold none, `w2/0` not the seat of index 0. A node
 * that holds such a seat gives it up to the next one.
 */
import { poolAnnotations } from './names.ts';
import { type AddressPool } from './objects.ts';

/** A node that is to hold no seat, or not that one. */
export interface Drained {
  readonly node: string;
  /** Null for all seats of the pool. */
  readonly seat: number | null;
}

/** What a pool's annotation says. What is nothing of the kind is left out. */
export function readDrained({ metadata }: Pick<AddressPool, 'metadata'>): Drained[] {
  return (metadata.annotations?.[poolAnnotations.drained] ?? '').split(',').flatMap((text) => {
    const [, node, seat] = /^\s*([a-z0-9][a-z0-9.-]{0,252})(?:\/(\d{1,9}))?\s*$/.exec(text) ?? [];
    return node === undefined ? [] : [{ node, seat: seat === undefined ? null : Number(seat) }];
  });
}

/** The annotation that says it; null for none. */
export function formatDrained(drained: readonly Drained[]): string | null {
  const texts = drained.map(({ node, seat }) => (seat === null ? node : `${node}/${seat}`));
  return texts.length === 0 ? null : [...new Set(texts)].sort().join(',');
}

/** The seats for which nodes are chosen. */
export interface DrainedSeats {
  readonly drained: readonly Drained[];
  /** Null for any seat of the pool. */
  readonly seat: number | null;
  /** Whether a node lives, and can serve. */
  readonly isAble: (node: string) => boolean;
}

/**
 * Of some nodes those that may hold a seat. All of them where no able one would be left: a drain leaves no address without a
 * holder.
 */
export function dropDrained(nodes: readonly string[], { drained, seat, isAble }: DrainedSeats): string[] {
  const rest = nodes.filter(
    (name) => !drained.some((one) => one.node === name && (one.seat === null || one.seat === seat)),
  );
  return rest.some(isAble) ? rest : [...nodes];
}

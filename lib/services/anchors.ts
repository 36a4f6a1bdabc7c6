/**
 * The addresses by which keepalived knows seats. It refuses an instance without an address, so each seat has one that belongs to no
 * network: it is on the interface `lo` of the holder. Only the seat's own adverts name it.
 */
import { type Address, families, type Family } from '../address/address.ts';

/** As many for each family as there are virtual_router_ids. */
export const anchorNumbers: readonly number[] = Array.from({ length: 255 }, (_, index) => index + 1);

/** RFC 3927, section 2.1, keeps 169.254.0.0/24 free. */
const bases = { ipv4: '169.254.0.', ipv6: 'fe80::' } as const;

/** An anchor, by its number. */
export interface Anchor {
  readonly address: Address;
  readonly number: number;
}

/** The anchor of a number. */
export function toAnchor(family: Family, number: number): string {
  return `${bases[family]}${number.toString(family === 'ipv4' ? 10 : 16)}`;
}

/** Null for what is no anchor, such as an address that somebody may have. Text counts as `toAnchor` writes it. */
export function parseAnchor(text: string): Anchor | null {
  return textToAnchor.get(text) ?? null;
}

const textToAnchor: ReadonlyMap<string, Anchor> = new Map(
  families.flatMap((family) =>
    anchorNumbers.map((number): [string, Anchor] => {
      const text = toAnchor(family, number);
      return [text, { address: { family, text }, number }];
    }),
  ),
);

import { type Family, families } from '../../../lib/net.ts';
import { type IptablesDialect, iptablesDialects } from '../../../lib/kernel/port.ts';
import { isFull } from './extent.ts';

type Pair = readonly [family: Family, dialect: IptablesDialect];

/** All pairs of them; in the gate the diagonal, so that each family and each dialect is tried. */
export const pairs: readonly Pair[] = families
  .flatMap((family, row) =>
    iptablesDialects.map((dialect, column) => ({
      pair: [family, dialect] as const,
      isDiagonal: row === column,
    })),
  )
  .filter(({ isDiagonal }) => isFull || isDiagonal)
  .map(({ pair }) => pair);

/** The dialects of iptables; in the gate the first. */
export const shownDialects: readonly IptablesDialect[] = iptablesDialects.slice(0, isFull ? undefined : 1);

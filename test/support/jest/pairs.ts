import { type Family, families } from '../../../lib/net.ts';
import { type IptablesDialect, iptablesDialects } from '../../../lib/kernel/port.ts';
import { isFull } from './extent.ts';

type Pair = readonly [family: Family, dialect: IptablesDialect];

/** All pairs of them; in the gate the diagonal, so that each family and each dialect is tried. */
export const pairs = families.flatMap((family, row) =>
  iptablesDialects.flatMap((dialect, column): Pair[] =>
    isFull || row === column ? [[family, dialect]] : [],
  ),
);

/** The dialects of iptables; in the gate the first. */
export const shownDialects: readonly IptablesDialect[] = iptablesDialects.slice(0, isFull ? undefined : 1);

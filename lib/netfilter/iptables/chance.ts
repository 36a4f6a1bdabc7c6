import { type Chance } from '../rules/chance.ts';

/** The match of a rule that takes connections by chance, with a space behind it; nothing for one that takes all. */
export function matchChance({ weight, left }: Chance): string {
  if (weight === left) return '';
  return `-m statistic --mode random --probability ${(weight / left).toFixed(10)} `;
}

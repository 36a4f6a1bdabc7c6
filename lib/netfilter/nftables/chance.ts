import { type Chance } from '../rules/chance.ts';

/** The match of a rule that takes connections by chance, with a space behind it, as nft prints it; nothing for one that takes all. */
export function matchChance({ weight, left }: Chance): string {
  if (weight === left) return '';
  return `numgen random mod ${left} ${weight === 1 ? '0' : `< ${weight}`} `;
}

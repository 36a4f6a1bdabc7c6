import { figureToMeaning, type Figure, type Figures } from './figures.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** How a figure and its ceiling are apart, in words. */
export interface Breach {
  readonly kind: 'above' | 'below';
  readonly text: string;
}

const ceilingsFile = 'tools/prose/settings/ceilings.json';

/** What a figure may be below its ceiling without a change of the ceiling, so that not every commit changes the file. */
const marginShare = 0.01;

/** Every name of a figure, in the order of the print. */
export const figureNames = Object.keys(figureToMeaning) as Figure[];

/** What the checkout in a folder may be at most. A figure without a ceiling may be nothing. */
export function readCeilings(root: string): Figures {
  const read = JSON.parse(readFileSync(join(root, ceilingsFile), 'utf8')) as Partial<Figures>;
  return Object.fromEntries(figureNames.map((name) => [name, read[name] ?? 0])) as Figures;
}

/** What does not fit: a figure above its ceiling, or so far below it that the ceiling has to fall. */
export function compareWithCeilings(figures: Figures, ceilings: Figures): Breach[] {
  return figureNames.flatMap((name): Breach[] => {
    const [figure, ceiling] = [figures[name], ceilings[name]];
    const pair = `${name} ${figure}, ceiling ${ceiling} (${figureToMeaning[name]})`;
    if (figure > ceiling) return [{ kind: 'above', text: `above its ceiling: ${pair}` }];
    if (figure >= ceiling - Math.floor(ceiling * marginShare)) return [];
    return [{ kind: 'below', text: `below its ceiling, which falls in the same commit: ${pair}` }];
  });
}

/** Lowers each ceiling to its figure. No figure may be above its ceiling. */
export function lowerCeilings(root: string, figures: Figures): void {
  writeFileSync(join(root, ceilingsFile), `${JSON.stringify(figures, null, 2)}\n`);
}

/**
 * Draws the pictures in docs/pictures, see scripts/pictures: all of them, or those that are named.
 */
import { writeFileSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { pictures } from './pictures.ts';

const folder = fileURLToPath(new URL('../../docs/pictures/', import.meta.url));

const [...named] = process.argv.slice(2);
const unknown = named.filter((name) => !(name in pictures));
if (unknown.length > 0) {
  console.error(
    `pictures: no such picture: ${unknown.join(' ')}. There are: ${Object.keys(pictures).join(', ')}`,
  );
  process.exit(1);
}
mkdirSync(folder, { recursive: true });
for (const [name, draw] of Object.entries(pictures)) {
  if (named.length > 0 && !named.includes(name)) continue;
  writeFileSync(`${folder}${name}.svg`, await draw());
  console.log(`wrote docs/pictures/${name}.svg`);
}

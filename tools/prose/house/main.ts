/**
 * The figures of the product beside their ceilings, see scripts/lint. Exit status 1 if they do not fit.
 *   --lower        lowers the ceilings to the figures
 *   --words FILE…  lists the private words of these files, or of all
 */
import { measureHouse, figureToMeaning } from './figures.ts';
import { readCeilings, figureNames, compareWithCeilings, lowerCeilings } from './ceilings.ts';
import { existsSync } from 'node:fs';
import { productFiles, readSources } from './source.ts';
import { findPrivateWords } from './private-words.ts';

const root = '.';

function checkHouse(isToLower: boolean): void {
  const { figures, circles, commentLines } = measureHouse(root);
  const ceilings = readCeilings(root);
  for (const name of figureNames) {
    const [figure, ceiling] = [figures[name], ceilings[name]].map((number) => String(number).padStart(6));
    console.log(`${name.padEnd(15)} ${figure} of at most ${ceiling}  ${figureToMeaning[name]}`);
  }
  const share = (100 * figures.privateComments) / commentLines;
  console.log(`${share.toFixed(1)} % of ${commentLines} comment lines have a private word`);
  for (const circle of circles) console.log(`circle: ${circle.join(' ')}`);

  const breaches = compareWithCeilings(figures, ceilings);
  const isAbove = breaches.some(({ kind }) => kind === 'above');
  if (isToLower && !isAbove) {
    lowerCeilings(root, figures);
    return;
  }
  for (const { text } of breaches) console.error(`lint: ${text}`);
  if (isAbove) console.error('lint: a ceiling only falls: remove as much as the change adds');
  else if (breaches.length > 0) console.error('lint: scripts/lint house --lower lowers the ceilings');
  if (breaches.length > 0) process.exitCode = 1;
}

function listWords(files: readonly string[]): void {
  const missing = files.filter((file) => !existsSync(file));
  for (const file of missing) console.error(`lint: ${file} is not a file`);
  if (missing.length > 0) process.exitCode = 1;

  const patterns = files.length > 0 ? files : [productFiles];
  const words = patterns.flatMap((pattern) => readSources(root, pattern)).flatMap(findPrivateWords);
  for (const { kind, path, line, message } of words) console.log(`${path}:${line} ${kind} ${message}`);
  if (words.length > 0) process.exitCode = 1;
}

const [option, ...files] = process.argv.slice(2);
if (option === '--words') listWords(files);
else if (option === undefined || option === '--lower') checkHouse(option === '--lower');
else {
  console.error(`lint: house has no ${option}: --lower, or --words FILE…`);
  process.exitCode = 1;
}

import { readFileSync, writeFileSync } from 'node:fs';
import { fillSections, pathToSections } from './generated-tables.ts';

for (const [path, sections] of pathToSections)
  writeFileSync(path, fillSections(readFileSync(path, 'utf8'), sections));

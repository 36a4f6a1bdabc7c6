import { readFileSync, writeFileSync } from 'node:fs';
import { fillTables, pathToTables } from './generated-tables.ts';

for (const [path, tables] of pathToTables)
  writeFileSync(path, fillTables(readFileSync(path, 'utf8'), tables));

/** The linter of what people read, see scripts/lint: of the named files, or of all. Exit status 1 with any finding. */
import { type Finding, lintFile, formatFinding } from './lint.ts';
import { relative } from 'node:path';
import { existsSync, globSync } from 'node:fs';
import { findRules, pathToRules } from '../settings/files.ts';

async function lintNamed(paths: readonly string[]): Promise<Finding[]> {
  const findings = await Promise.all(paths.map((path) => lintFile(relative('.', path))));
  return findings.flat();
}

function requireListed(path: string): void {
  if (existsSync(path) && findRules(relative('.', path)) !== null) return;
  console.error(`lint: ${path} is not a file that tools/prose/settings/files.ts lists`);
  process.exit(1);
}

function listAll(): string[] {
  return [...new Set(pathToRules.flatMap(([glob]) => globSync(glob)))].sort();
}

const named = process.argv.slice(2);
for (const path of named) requireListed(path);
const findings = await lintNamed(named.length > 0 ? named : listAll());
for (const finding of findings) console.log(formatFinding(finding));
if (findings.length > 0) {
  console.error(`lint: ${findings.length} in prose. docs/glossary.md has the terms`);
  process.exitCode = 1;
}

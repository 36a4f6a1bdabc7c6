/** The linter of what people read, see scripts/lint: of the named files, or of all. Exit status 1 with any finding. */
import { existsSync, globSync } from 'node:fs';
import { relative } from 'node:path';
import { findRules, pathToRules } from '../settings/files.ts';
import { notYetClean } from '../settings/not-yet-clean.ts';
import { type Finding, formatFinding, lintFile } from './lint.ts';

async function lintNamed(paths: readonly string[]): Promise<Finding[]> {
  const findings = await Promise.all(paths.map((path) => lintFile(relative('.', path))));
  return findings.flat();
}

function requireListed(path: string): void {
  if (existsSync(path) && findRules(relative('.', path)) !== null) return;
  console.error(`lint: ${path} is not a file that prose/settings/files.ts lists`);
  process.exit(1);
}

async function lintAll(): Promise<Finding[]> {
  const paths = [...new Set(pathToRules.flatMap(([glob]) => globSync(glob)))].sort();
  const findings = await lintNamed(paths);
  const unclean = new Set(findings.map(({ path }) => path));
  for (const path of notYetClean.filter((listed) => !unclean.has(listed)))
    console.error(`lint: ${path} has no findings: take it off the list in prose/settings/not-yet-clean.ts`);
  return findings.filter(({ path }) => !notYetClean.includes(path));
}

const named = process.argv.slice(2);
for (const path of named) requireListed(path);
const findings = await (named.length > 0 ? lintNamed(named) : lintAll());
for (const finding of findings) console.log(formatFinding(finding));
if (findings.length > 0) {
  console.error(`lint: ${findings.length} in prose. docs/glossary.md has the terms`);
  process.exitCode = 1;
}

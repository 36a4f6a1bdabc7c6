import { TextlintKernel, type TextlintKernelRule } from '@textlint/kernel';
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { plugins } from '../texts/plugins.ts';
import { findRules, type Rules } from '../settings/files.ts';
import { toTextlintRule } from '../rules/rule.ts';

/** A sentence or a word to change. Lines and columns count from 1. */
export interface Finding {
  readonly path: string;
  readonly line: number;
  readonly column: number;
  readonly rule: string;
  /** The words, and what is better. */
  readonly message: string;
}

const kernel = new TextlintKernel();

/** The findings in a file, in its order. The path, from the project's folder, says which rules it keeps: none, where it is not listed. */
export function lintFile(path: string): Promise<Finding[]> {
  return lintText(path, readFileSync(path, 'utf8'));
}

/** The findings in a text that is in a file of this path. */
export async function lintText(path: string, text: string): Promise<Finding[]> {
  const { messages } = await kernel.lintText(path.endsWith('CHANGELOG.md') ? cutReleased(text) : text, {
    ext: extname(path),
    filePath: path,
    plugins: [...plugins],
    rules: toTextlintRules(findRules(path) ?? {}),
  });
  return messages.map(({ loc, ruleId, message }) => ({
    path,
    line: loc.start.line,
    column: loc.start.column,
    rule: ruleId,
    message,
  }));
}

/** `README.md:14:3 words "anew": write "again"`. */
export function formatFinding({ path, line, column, rule, message }: Finding): string {
  return `${path}:${line}:${column} ${rule} ${message}`;
}

function toTextlintRules(rules: Rules): TextlintKernelRule[] {
  return Object.entries(rules).map(([ruleId, find]) => ({ ruleId, rule: toTextlintRule(find) }));
}

/** What is released stays as it was written. */
function cutReleased(changelog: string): string {
  const [, released] = [...changelog.matchAll(/^## /gm)];
  return changelog.slice(0, released?.index);
}

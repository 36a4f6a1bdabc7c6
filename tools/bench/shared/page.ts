import { fileURLToPath } from 'node:url';
import { readFileSync, writeFileSync } from 'node:fs';
import { fillSection } from '../../../test/support/documents/sections.ts';
import { format, resolveConfig } from 'prettier';

const file = fileURLToPath(new URL('../../../docs/benchmarks.md', import.meta.url));

/**
 * Puts a text in docs/benchmarks.md in the place of what is between the comments `NAME:begin` and `NAME:end`;
 * answers the file's path.
 * @throws Error when the page has no such comments.
 */
export async function writeSection(name: string, section: string): Promise<string> {
  const text = readFileSync(file, 'utf8');
  const whole = fillSection(text, name, section);
  writeFileSync(file, await format(whole, { ...(await resolveConfig(file)), parser: 'markdown' }));
  return file;
}

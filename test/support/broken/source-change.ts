import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';

/** A fault in vipnat itself, in one place of its sources. */
export interface SourceChange {
  /** What such a vipnat does. */
  readonly name: string;
  /** The source file and its text that is replaced, which is there exactly once. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/**
 * The source file with a change.
 * @throws when the text to replace is not there exactly once: then the change is not one of this source.
 */
export function changeSource({ name, file, from, to }: SourceChange): string {
  const text = readFileSync(join(rootFolder, file), 'utf8');
  const found = text.split(from).length - 1;
  if (found !== 1) throw new Error(`"${name}": its text is ${found} times in ${file}: ${from}`);
  return text.replace(from, () => to);
}

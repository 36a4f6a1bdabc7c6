import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { productFolders } from '../../../lab/settings/folders.ts';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import type { Mutation } from './mutations.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** What scripts/build.mjs needs. */
const sources = [...productFolders, ...['scripts', 'package.json', 'package-lock.json', 'tsconfig.json']];

/** A vipnat with a mutation, built as scripts/build does it. */
export interface BrokenVipnat {
  /** Its program with its interpreter. */
  readonly command: readonly string[];
  /** Removes its files. */
  remove(): void;
}

/**
 * Builds one in a folder of its own.
 * @throws when the text to replace is not there exactly once: then the mutation is not one of this source.
 */
export async function breakVipnat(mutation: Mutation): Promise<BrokenVipnat> {
  const temporary = new TemporaryFolder('broken');
  const { path: folder } = temporary;
  const remove = () => {
    temporary.remove();
  };
  try {
    for (const source of sources) cpSync(join(root, source), join(folder, source), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, mutation.file), mutate(mutation));
    await execa(process.execPath, ['scripts/build.mjs', join(folder, 'dist')], { cwd: folder });
  } catch (error) {
    remove();
    throw error;
  }
  return { command: [process.execPath, join(folder, 'dist/vipnat.js')], remove };
}

/**
 * The source file with a mutation.
 * @throws when the text to replace is not there exactly once: then the mutation is not one of this source.
 */
export function mutate({ name, file, from, to }: Mutation): string {
  const text = readFileSync(join(root, file), 'utf8');
  const found = text.split(from).length - 1;
  if (found !== 1) throw new Error(`"${name}": its text is ${found} times in ${file}: ${from}`);
  return text.replace(from, () => to);
}

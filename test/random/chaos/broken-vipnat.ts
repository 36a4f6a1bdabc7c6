import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { productFolders, rootFolder } from '../../../lab/settings/folders.ts';
import { changeSource } from '../../support/broken/source-change.ts';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import type { Mutation } from './mutations.ts';

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
    for (const source of sources) cpSync(join(rootFolder, source), join(folder, source), { recursive: true });
    symlinkSync(join(rootFolder, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, mutation.file), changeSource(mutation));
    await execa(process.execPath, ['scripts/build.mjs', join(folder, 'dist')], { cwd: folder });
  } catch (error) {
    remove();
    throw error;
  }
  return { command: [process.execPath, join(folder, 'dist/vipnat.js')], remove };
}

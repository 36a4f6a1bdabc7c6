import { replaceFile } from '../../../lib/files/replace-file.ts';
import { notWritten, refuseForeignFile } from '../../../lib/files/foreign-file.ts';
import { fileMark, type HostFile } from './systemd.ts';

/** All files as one text for people, each behind its path, as `systemctl cat` has them. Pure. */
export function formatHostFiles(files: readonly HostFile[]): string {
  return files.map(({ path, text }) => `# ${path}\n${text}`).join('\n');
}

/**
 * Writes files below a folder, each whole or not at all; answers their paths. Files of the same names that are not
 * vipnat's stay as they are: then nothing is written.
 * @throws VipnatError OUTPUT_NOT_WRITTEN
 */
export async function writeHostFiles(files: readonly HostFile[], folder: string): Promise<string[]> {
  const root = folder.replace(/\/+$/, '');
  const placed = files.map(({ path, text }) => ({ path: `${root}${path}`, text }));
  for (const { path } of placed) await refuseForeignFile(path, fileMark, 'vipnat manifest systemd');
  for (const { path, text } of placed) {
    await replaceFile(path, text).catch((error: unknown) => {
      throw notWritten(path, error);
    });
  }
  return placed.map(({ path }) => path);
}

import { VipnatError } from '../../../lib/text/errors.ts';
import { readIfThere } from '../../../lib/files/optional-file.ts';
import { replaceFile } from '../../../lib/files/replace-file.ts';
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
  for (const { path } of placed) await refuseForeign(path);
  for (const { path, text } of placed) {
    await replaceFile(path, text).catch((error: unknown) => {
      throw notWritten(path, (error as NodeJS.ErrnoException).code ?? 'unknown', error);
    });
  }
  return placed.map(({ path }) => path);
}

async function refuseForeign(path: string): Promise<void> {
  const text = await readIfThere(path, { refusesLink: true }).catch((error: unknown) => {
    throw notWritten(path, (error as NodeJS.ErrnoException).code ?? 'unknown', error);
  });
  if (text === null || text.startsWith(fileMark)) return;
  throw notWritten(path, 'the file exists, and is not from vipnat manifest systemd: move it away first');
}

function notWritten(path: string, reason: string, cause?: unknown): VipnatError {
  return new VipnatError('OUTPUT_NOT_WRITTEN', `writing ${path} failed (${reason})`, { cause });
}

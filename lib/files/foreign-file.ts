import { VipnatError } from '../text/errors.ts';
import { readIfThere } from './optional-file.ts';

/**
 * Refuses to go on where a file of that name is somebody else's: one with something in it that does not begin with the mark.
 * `command` names what writes such files.
 * @throws VipnatError OUTPUT_NOT_WRITTEN, also where the file cannot be read.
 */
export async function refuseForeignFile(path: string, mark: string, command: string): Promise<void> {
  const text = await readIfThere(path, { refusesLink: true }).catch((error: unknown) => {
    throw notWritten(path, error);
  });
  if (text === null || text.trim() === '' || text.startsWith(mark)) return;
  const reason = `the file exists, and is not from ${command}: move it away first`;
  throw notWritten(path, Object.assign(new Error(reason), { code: reason }));
}

/** What a file could not be written for: the error's code. */
export function notWritten(path: string, cause: unknown): VipnatError {
  const { code, message } = cause as NodeJS.ErrnoException;
  return new VipnatError('OUTPUT_NOT_WRITTEN', `writing ${path} failed (${code ?? message})`, { cause });
}

import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/** Far more than any file that is read here has; a process has to hold all of it. */
const maxBytes = 4_194_304;

/** Which file is opened, and how much of it is read. */
export interface ReadLimits {
  /** Default: 4 MiB. */
  readonly maxBytes?: number;
  /** A link is not followed, but refused with ELOOP. Default: false. */
  readonly refusesLink?: boolean;
  /** Looks at the open file before it is read, and rejects if it shall not be. */
  readonly check?: (file: FileHandle) => Promise<void>;
}

/**
 * What is in a file; null where there is none. Never waits, whatever has that name: what is no file, or too large, is
 * refused. Rejects for one that is there and may not be read, with a `code` as node:fs has, `no file` or `too large`.
 */
export async function readIfThere(path: string, limits: ReadLimits = {}): Promise<string | null> {
  const file = await openIfThere(path, limits.refusesLink === true ? constants.O_NOFOLLOW : 0);
  if (file === null) return null;
  try {
    await limits.check?.(file);
    return await readRegular(file, limits.maxBytes ?? maxBytes);
  } finally {
    await file.close();
  }
}

async function openIfThere(path: string, flag: number): Promise<FileHandle | null> {
  try {
    // A named pipe would be waited for until somebody writes to it, on one of Node's four threads for files.
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK | flag);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTDIR'].includes(code)) return null;
    // A socket.
    throw code === 'ENXIO' ? refuse('no file') : error;
  }
}

async function readRegular(file: FileHandle, limit: number): Promise<string> {
  if (!(await file.stat()).isFile()) throw refuse('no file');
  const chunks: Buffer[] = [];
  // One byte more than may be; what is in /proc has no size to go by.
  for await (const chunk of file.createReadStream({ end: limit, autoClose: false }))
    chunks.push(chunk as Buffer);
  const content = Buffer.concat(chunks);
  if (content.length > limit) throw refuse('too large');
  return content.toString('utf8');
}

function refuse(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

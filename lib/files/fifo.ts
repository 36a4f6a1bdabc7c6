import { constants, type PathLike } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/** More than this at once is left for the next read. */
const chunkBytes = 16_384;

/** The reading end of a named pipe that somebody else makes, writes and removes. Never waits for a writer. */
export class Fifo {
  readonly #path: PathLike;
  #handle: FileHandle | null = null;

  constructor(path: PathLike) {
    this.#path = path;
  }

  /**
   * What was written since the last read: empty when nothing was; null when nobody has it open for writing, so that what is
   * written next begins anew. One read at a time. Never rejects: a file that is no pipe or cannot be read counts as having no writer.
   */
  async read(): Promise<string | null> {
    try {
      this.#handle ??= await openFifo(this.#path);
      const { bytesRead, buffer } = await this.#handle.read(Buffer.alloc(chunkBytes));
      if (bytesRead > 0) return buffer.toString('utf8', 0, bytesRead);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return '';
    }
    await this.close();
    return null;
  }

  /** Gives the pipe back; the next read opens it again. Safe to call twice. */
  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = null;
    await handle?.close();
  }
}

/** Rejects for anything else at that path: a file would be read to its end again and again. */
async function openFifo(path: PathLike): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  if ((await handle.stat()).isFIFO()) return handle;
  await handle.close();
  throw new Error('not a named pipe');
}

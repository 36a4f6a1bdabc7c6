import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rename, unlink } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

const { O_DIRECTORY, O_RDONLY } = constants;

/** Everybody may read, only the owner write. */
const mode = 0o644;

/**
 * Replaces a file, whole or not at all, also where the power fails; its folder is made where there is none. The file is
 * then our own, of mode 0644, whoever had the one before. Nothing is ever written through a link, a second name, a pipe or
 * a device in its place: that is what is replaced. Rejects, as node:fs does, where it could not be; what was there stays.
 */
export async function replaceFile(path: string, text: string, options: FolderOptions = {}): Promise<void> {
  const parent = dirname(path);
  await mkdir(parent, { recursive: true, mode: 0o755 });
  const folder = await openFolder(parent, options);
  try {
    // By the open folder: whoever puts another one in its place meanwhile gets nothing. Node has no openat().
    await replaceIn(`/proc/self/fd/${folder.fd}`, basename(path), text);
    // Only then a rename outlives a power failure.
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** What is known of the file's folder. */
interface FolderOptions {
  /** It is only ever made by vipnat: a link in its place is somebody's trick, and is refused. Default: false. */
  readonly isFolderOurs?: boolean;
}

async function openFolder(path: string, { isFolderOurs = false }: FolderOptions): Promise<FileHandle> {
  try {
    return await open(path, O_RDONLY | O_DIRECTORY | (isFolderOurs ? constants.O_NOFOLLOW : 0));
  } catch (error) {
    // As it is there, that is the one thing that it can be.
    const isLink = isFolderOurs && (error as NodeJS.ErrnoException).code === 'ENOTDIR';
    throw isLink ? new Error(`${path} is a link`, { cause: error }) : error;
  }
}

async function replaceIn(folder: string, name: string, text: string): Promise<void> {
  const target = `${folder}/${name}`;
  // A name that nobody can have taken before.
  const draft = `${folder}/.${name}.${randomBytes(8).toString('hex')}`;
  const file = await open(draft, 'wx', mode);
  try {
    await writeAll(file, text);
    await rename(draft, target);
  } catch (error) {
    await unlink(draft).catch(() => undefined);
    throw error;
  }
}

async function writeAll(file: FileHandle, text: string): Promise<void> {
  try {
    await file.writeFile(text);
    // Whatever the umask left of it.
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
}

import { readFileSync, constants, type PathLike } from 'node:fs';
import { X509Certificate, randomBytes } from 'node:crypto';
import { join, dirname, basename } from 'node:path';
import { stat, open, unlink, type FileHandle, mkdir, rename } from 'node:fs/promises';
import { type ErrorCode, VipnatError, describeCause, ignoreMissing } from './errors.ts';

/** The certificates by which apiservers' own are verified, and the file they come from. */
export interface Authority {
  readonly file: string;
  /** PEM, one or more certificates. */
  readonly certificates: string;
}

/** Where the cluster's CA usually is: in a pod, as kubeadm has it, as kubespray has it, as RKE2 and k3s have it. */
const usualFiles = [
  '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt',
  '/etc/kubernetes/pki/ca.crt',
  '/etc/kubernetes/ssl/ca.crt',
  '/var/lib/rancher/rke2/server/tls/server-ca.crt',
  '/var/lib/rancher/k3s/server/tls/server-ca.crt',
];

/** The CA in the given file, else in the first usual place that has one; null when none has. Read again each time: CAs are rotated. */
export function findAuthority(file: string | null): Authority | null {
  for (const candidate of file === null ? usualFiles : [file]) {
    const certificates = readCertificates(candidate);
    if (certificates !== null) return { file: candidate, certificates };
  }
  return null;
}

/** The PEM text of a file that begins with a certificate, or null when it cannot be read or is something else. */
export function readCertificates(file: string): string | null {
  try {
    const text = readFileSync(file, 'utf8');
    new X509Certificate(text);
    return text;
  } catch {
    return null;
  }
}

/** That a host is drained. */
export interface Drain {
  /** Since when. */
  readonly since: Date;
  /** Since when the virtual IPs may stay on it all the same, as no other host took one; null while they are to leave. */
  readonly vipStaysSince: Date | null;
}

/** Where it outlives the agent, and the host's reboot, that this host is drained. */
export interface DrainStore {
  /** Where it is, for people. */
  readonly location: string;
  /**
   * The drain of this host; null where it is not drained.
   * @throws VipnatError STATE_UNREADABLE
   */
  load(): Promise<Drain | null>;
  /**
   * Has this host drained since then, or drained no longer.
   * @throws VipnatError STATE_NOT_WRITTEN
   */
  save(since: Date | null): Promise<void>;
  /**
   * Adds to the drain that the virtual IPs may stay. A drain that has ended meanwhile stays ended.
   * @throws VipnatError STATE_NOT_WRITTEN
   */
  addVipStays(since: Date): Promise<void>;
}

/** Two dates of 24 characters, and a word. */
const maxDrainBytes = 1024;

/** A file in a folder: it is there as long as the host is drained, whatever it says. */
export function createDrainStore(folder: string): DrainStore {
  const location = join(folder, 'drained');
  return {
    location,
    load: () =>
      orThrow(loadDrain(location), 'STATE_UNREADABLE', (why) => `${location} cannot be read (${why})`),
    save: (since) => {
      const what = `${since === null ? 'removing' : 'writing'} ${location} failed`;
      const work = since === null ? removeFile(location) : replaceFile(location, `${since.toISOString()}\n`);
      return orThrow(work, 'STATE_NOT_WRITTEN', (why) => `${what} (${why}). Nothing changed`);
    },
    addVipStays: (since) => {
      const next = 'The next agent tries again to give the virtual IPs up';
      const work = append(location, `\n${vipStays}${since.toISOString()}\n`);
      return orThrow(work, 'STATE_NOT_WRITTEN', (why) => `writing ${location} failed (${why}). ${next}`);
    },
  };
}

async function loadDrain(location: string): Promise<Drain | null> {
  const text = await readIfThere(location, { maxBytes: maxDrainBytes });
  if (text === null) return null;
  const lines = text.split('\n');
  // Without a date where it was made by hand.
  const since = toDate(lines[0] ?? '') ?? (await stat(location)).mtime;
  // None, and one that was torn, are no date.
  const stays = lines.find((one) => one.startsWith(vipStays))?.slice(vipStays.length) ?? '';
  return { since, vipStaysSince: toDate(stays) };
}

/** What the work answers; of an error it says by this code, with the error's own, what could not be done. */
export function orThrow<T>(
  work: Promise<T>,
  code: ErrorCode,
  toMessage: (why: string) => string,
): Promise<T> {
  return work.catch((error: unknown) => {
    throw new VipnatError(code, toMessage(describeCause(error)), { cause: error });
  });
}

/** How the line begins that says so. */
const vipStays = 'vip-stays ';

function toDate(text: string): Date | null {
  const date = new Date(/^\d{4}-\d\d-\d\dT/.test(text) ? text.trim() : Number.NaN);
  return Number.isNaN(date.getTime()) ? null : date;
}

const { O_APPEND, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;

/** Writes over the beginning of a file that is there. Rejects, as node:fs does, where it is not, and for a link. */
export async function overwriteFile(location: string, text: string): Promise<void> {
  const file = await open(location, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
  await file.write(text, 0).finally(() => file.close());
}

/** A file that was removed meanwhile is not made again: that would drain the host again. Its time stays, which may be its date. */
async function append(location: string, text: string): Promise<void> {
  const file = await open(location, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK).catch(ignoreMissing);
  try {
    const before = await file?.stat();
    await file?.appendFile(text);
    if (before !== undefined) await file?.utimes(before.atime, before.mtime);
    await file?.sync();
  } finally {
    await file?.close();
  }
}

async function removeFile(location: string): Promise<void> {
  await unlink(location).catch(ignoreMissing);
}

/** More than this in one read is left for the next. */
const chunkBytes = 16_384;

/** Whether a keepalived follows a file, by which a program of vipnat takes addresses away from a node that cannot serve. */
export interface GuardView {
  /** Null where no keepalived is seen, or none may be asked: that is no fault. */
  readonly isWatched: boolean | null;
  /** Why it does not, as a sentence without its end; absent where it does. */
  readonly cause?: string;
}

/** The reading end of a named pipe that somebody else makes, writes and removes. Never waits for a writer. */
export class Fifo {
  readonly #path: PathLike;
  #handle: FileHandle | null = null;

  constructor(path: PathLike) {
    this.#path = path;
  }

  /**
   * What was written since the last read: empty when nothing was; null when nobody has it open for writing, so that what is
   * written next is a new beginning. One read at a time. Never rejects: a file that is no pipe or cannot be read counts as having no writer.
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

/**
 * Refuses to continue where a file of that name is somebody else's: one with something in it that does not begin with the mark.
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
  return new VipnatError('OUTPUT_NOT_WRITTEN', `writing ${path} failed (${describeCause(cause)})`, { cause });
}

/** Far more than any file that is read here has; a process has to hold all of it. */
const maxFileBytes = 4_194_304;

/** Which file is opened, and how much of it is read. */
export interface ReadLimits {
  /** Default: 4 MiB. */
  readonly maxBytes?: number;
  /** A link is not followed, but refused with ELOOP. Default: false. */
  readonly refusesLink?: boolean;
  /** Checks the open file before it is read, and rejects if it shall not be. */
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
    return await readRegular(file, limits.maxBytes ?? maxFileBytes);
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

/** What is thrown of a file that is refused: the code says why. */
export function refuse(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** Everybody may read, only the owner write. */
const mode = 0o644;

/**
 * Replaces a file, whole or not at all, also where the power fails; its folder is made where there is none. The file is
 * then vipnat's own, of mode 0644, whoever had the one before. Nothing is ever written through a link, a second name, a pipe or
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

interface FolderOptions {
  /** It is only ever made by vipnat: a link in its place is somebody's trick, and is refused. Default: false. */
  readonly isOwnFolder?: boolean;
}

async function openFolder(path: string, { isOwnFolder = false }: FolderOptions): Promise<FileHandle> {
  try {
    return await open(
      path,
      constants.O_RDONLY | constants.O_DIRECTORY | (isOwnFolder ? constants.O_NOFOLLOW : 0),
    );
  } catch (error) {
    // As it is there, that is the one thing that it can be.
    const isLink = isOwnFolder && (error as NodeJS.ErrnoException).code === 'ENOTDIR';
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

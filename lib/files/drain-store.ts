import { constants } from 'node:fs';
import { open, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from './replace-file.ts';
import { readIfThere } from './optional-file.ts';
import { VipnatError } from '../text/errors.ts';

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
const maxBytes = 1024;

/** A file in a folder: it is there as long as the host is drained, whatever it says. */
export function createDrainStore(folder: string): DrainStore {
  const location = join(folder, 'drained');
  return {
    location,
    async load() {
      try {
        const text = await readIfThere(location, { maxBytes });
        if (text === null) return null;
        const lines = text.split('\n');
        // Without a date where it was made by hand.
        const since = toDate(lines[0] ?? '') ?? (await stat(location)).mtime;
        return { since, vipStaysSince: readVipStays(lines) };
      } catch (error) {
        throw new VipnatError('STATE_UNREADABLE', `${location} cannot be read (${describe(error)})`, {
          cause: error,
        });
      }
    },
    async save(since) {
      try {
        await (since === null ? removeFile(location) : replaceFile(location, `${since.toISOString()}\n`));
      } catch (error) {
        const what = `${since === null ? 'removing' : 'writing'} ${location} failed (${describe(error)})`;
        throw new VipnatError('STATE_NOT_WRITTEN', `${what}. Nothing changed`, { cause: error });
      }
    },
    async addVipStays(since) {
      try {
        await append(location, `\n${vipStays}${since.toISOString()}\n`);
      } catch (error) {
        const what = `writing ${location} failed (${describe(error)})`;
        const next = 'The next agent tries again to give the virtual IPs up';
        throw new VipnatError('STATE_NOT_WRITTEN', `${what}. ${next}`, { cause: error });
      }
    },
  };
}

/** How the line begins that says so. */
const vipStays = 'vip-stays ';

/** Null for none, and for one that was torn. */
function readVipStays(lines: readonly string[]): Date | null {
  const line = lines.find((one) => one.startsWith(vipStays));
  return line === undefined ? null : toDate(line.slice(vipStays.length));
}

function toDate(text: string): Date | null {
  const date = new Date(/^\d{4}-\d\d-\d\dT/.test(text) ? text.trim() : Number.NaN);
  return Number.isNaN(date.getTime()) ? null : date;
}

const { O_APPEND, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;

/** A file that was removed meanwhile is not made again: that would drain the host anew. Its time stays, which may be its date. */
async function append(location: string, text: string): Promise<void> {
  const file = await open(location, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  });
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
  await unlink(location).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  });
}

function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

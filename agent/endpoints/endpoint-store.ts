import { type Stats } from 'node:fs';
import { type FileHandle, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { VipnatError } from '../../lib/text/errors.ts';
import { readIfThere } from '../../lib/files/optional-file.ts';
import { replaceFile } from '../../lib/files/replace-file.ts';
import { formatEndpointFile, parseEndpointFile, type SavedEndpoints } from './endpoint-file.ts';

/** Where the apiservers that were last known outlive the agent, and the host's reboot. */
export interface EndpointStore {
  /** Where it is, for people. */
  readonly location: string;
  /**
   * What was saved last, or null when nothing ever was.
   * @throws VipnatError STATE_UNREADABLE when it cannot be read, or does not hold what was saved.
   */
  load(): Promise<SavedEndpoints | null>;
  /**
   * Replaces what was saved, whole or not at all. One at a time.
   * @throws VipnatError STATE_NOT_WRITTEN when it could not be; what was saved before stays.
   */
  save(saved: SavedEndpoints): Promise<void>;
}

/** A file of ours has a few hundred bytes. */
const maxBytes = 65_536;

/** A store in a folder, which is made when something is saved. */
export function createEndpointStore(folder: string): EndpointStore {
  const location = join(folder, 'endpoints.json');
  return {
    location,
    async load() {
      const text = await readText(location);
      if (text === null) return null;
      const saved = parseEndpointFile(text);
      if (typeof saved === 'string') throw unreadable(`${location} ${saved}`);
      return saved;
    },
    async save(saved) {
      try {
        await replaceFile(location, formatEndpointFile(saved));
      } catch (error) {
        const what = `writing ${location} failed (${describe(error)})`;
        const next = 'vipnat continues, but after a reboot it cannot read the apiservers from this file';
        throw new VipnatError('STATE_NOT_WRITTEN', `${what}. ${next}`, { cause: error });
      }
    },
  };
}

/** The file can become rules when no other source lists apiservers, so one that another user could write is refused. */
async function readText(location: string): Promise<string | null> {
  try {
    const check = (file: FileHandle) => checkWriters(file, location);
    return await readIfThere(location, { maxBytes, refusesLink: true, check });
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    const code = describe(error);
    throw unreadable(`${location} ${codeToPhrase[code] ?? `cannot be read (${code})`}`, error);
  }
}

const codeToPhrase: Readonly<Record<string, string>> = {
  ELOOP: 'is a link, which vipnat does not follow',
  'no file': 'is not a regular file',
  'too large': 'is too large for a file of vipnat',
};

async function checkWriters(file: FileHandle, location: string): Promise<void> {
  const problem =
    describeWriters('it', await file.stat()) ?? describeWriters('its folder', await stat(dirname(location)));
  if (problem !== null) throw unreadable(`any user may have written ${location}, because ${problem}`);
}

/** The bits of group and others that may write. */
const othersWrite = 0o022;

function describeWriters(name: string, { uid, mode }: Stats): string | null {
  if (uid !== 0 && uid !== process.getuid?.()) return `${name} belongs to user ${uid}`;
  if ((mode & othersWrite) === 0) return null;
  return `${name} has mode 0${(mode & 0o7777).toString(8)}`;
}

function unreadable(what: string, cause?: unknown): VipnatError {
  const next = 'vipnat ignores this file, and replaces it when it knows the apiservers';
  return new VipnatError('STATE_UNREADABLE', `${what}. ${next}`, { cause });
}

function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

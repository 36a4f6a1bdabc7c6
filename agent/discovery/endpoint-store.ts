import { mkdir, open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { VipnatError } from '../../lib/errors.ts';
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
        await mkdir(folder, { recursive: true });
        await writeFileAtomic(location, formatEndpointFile(saved), { mode: 0o644 });
        await syncFolder(folder);
      } catch (error) {
        const what = `writing ${location} failed (${describe(error)})`;
        const next = 'vipnat goes on, but after a reboot it has to find the apiservers by itself';
        throw new VipnatError('STATE_NOT_WRITTEN', `${what}: ${next}`, { cause: error });
      }
    },
  };
}

async function readText(location: string): Promise<string | null> {
  try {
    // Whatever else has this name may be endless, or never be written to.
    const found = await stat(location);
    if (found.isFile() && found.size <= maxBytes) return await readFile(location, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw unreadable(`${location} cannot be read (${describe(error)})`, error);
  }
  throw unreadable(`${location} is too large or no file at all`);
}

/** Only then a rename outlives a power failure. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function unreadable(what: string, cause?: unknown): VipnatError {
  const next = 'it is ignored, and replaced when the apiservers are known';
  return new VipnatError('STATE_UNREADABLE', `${what}: ${next}`, { cause });
}

function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

import { access } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readIfThere } from '../../../lib/files/optional-file.ts';
import {
  keepalivedFile,
  type KeepalivedConfiguration,
  readConfiguration,
} from '../../../lib/keepalived/find.ts';
import { isFolderWatched } from '../../../lib/keepalived/watched.ts';
import { type PathView } from '../../../lib/kernel/host/host-paths.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { VipnatError } from '../../../lib/text/errors.ts';
import { type Config } from '../../../config/config.ts';
import { locateKeepalivedFile, locateServingFile } from '../../../lib/keepalived/serving-file.ts';
import { type Fact } from './fact.ts';
import { filePaths, type HostFacts, type TrackFileView } from './host-facts.ts';

/** Reads the files of filePaths. One that this container may only not see is unknown. */
export async function readFiles(mayHide: PathView): Promise<HostFacts['files']> {
  const paths = Object.values(filePaths);
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await readText(path, mayHide)] as const)),
  );
}

async function readText(path: string, mayHide: PathView): Promise<Fact<string | null>> {
  try {
    const text = await readIfThere(path);
    return text === null && mayHide(path) ? { unknown: describeHidden(path) } : { value: text };
  } catch (error) {
    return { unknown: `${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})` };
  }
}

function describeHidden(path: string): string {
  return `this container does not see the host's ${dirname(path)}`;
}

/**
 * keepalived's configuration.
 * @throws VipnatError TOOL_NOT_PERMITTED where none is seen and the host may have one; else as readConfiguration does.
 */
export async function findConfiguration(
  processes: readonly HostProcess[],
  { runDir }: Config,
  mayHide: PathView,
): Promise<KeepalivedConfiguration> {
  const here = processes.filter(({ isSurelyHere }) => isSurelyHere);
  const hostFile = locateKeepalivedFile(runDir);
  const found = await readConfiguration(here, hostFile);
  const hidden = [keepalivedFile, hostFile].find(mayHide);
  // What a running keepalived names is read among its own files, which are seen whole.
  if (found.text === null && hidden !== undefined && !here.some(({ name }) => name === 'keepalived'))
    throw new VipnatError('TOOL_NOT_PERMITTED', describeHidden(hidden));
  return found;
}

/**
 * What keepalived is told, and whether it listens.
 * @throws VipnatError TOOL_NOT_PERMITTED where the file is not seen and the host may have one; else as node:fs does.
 */
export async function findTrackFile(
  processes: readonly HostProcess[],
  { runDir }: Config,
  mayHide: PathView,
): Promise<TrackFileView> {
  const file = locateServingFile(runDir);
  const [text, isWatched] = await Promise.all([readIfThere(file), isFolderWatched(processes, dirname(file))]);
  if (text === null && mayHide(file)) throw new VipnatError('TOOL_NOT_PERMITTED', describeHidden(file));
  return { says: text?.trim() ?? null, isWatched };
}

/** Whether an agent has remembered apiservers on this host. */
export async function findMemory({ stateDir }: Config, mayHide: PathView): Promise<Fact<boolean>> {
  const path = join(stateDir, 'endpoints.json');
  try {
    await access(path);
    return { value: true };
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'ENOTDIR'].includes(code)) return { unknown: `${path} cannot be read (${code})` };
    return mayHide(path) ? { unknown: describeHidden(path) } : { value: false };
  }
}

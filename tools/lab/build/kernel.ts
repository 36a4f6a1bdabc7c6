/** A kernel for virtual machines that has both IPVS and nftables, which no Debian package has for user-mode Linux. */
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { componentFolder } from '../settings/folders.ts';
import { buildOnce } from './once.ts';
import { execa } from 'execa';
import { LabError } from '../settings/error.ts';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** Debian 12 and 13 have sources of this series. */
const sources = 'linux-source-6.12';

const fromHere = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const [configuration, program] = [fromHere('../guest/kernel.config'), fromHere('../guest/build-kernel')];

/** Where the kernel is, once it is built. */
export function locateKernel(): string {
  return join(componentFolder, nameKernel(), 'linux');
}

/**
 * Builds the kernel from Debian's sources, if it is not there yet. It takes minutes, and one in the folder of components is kept when
 * Debian has a newer one of its series.
 * @throws LabError with the end of what was printed.
 */
export async function buildKernel(say: (line: string) => void): Promise<void> {
  await buildOnce({ label: nameKernel(), programs: ['linux'] }, say, async (folder) => {
    const result = await execa(program, [sources, configuration], { cwd: folder, reject: false, all: true });
    if (result.exitCode === 0) return;
    const last = result.all.trim().split('\n').slice(-5).join('\n');
    throw new LabError(`the kernel of virtual machines cannot be built from Debian's ${sources}:\n${last}`);
  });
}

/** After its sources and all that decides how it is built. */
function nameKernel(): string {
  const hash = createHash('sha256');
  for (const file of [configuration, program]) hash.update(readFileSync(file));
  return `${sources}-um-${hash.digest('hex').slice(0, 8)}`;
}

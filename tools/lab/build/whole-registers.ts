/** A library for user-mode Linux on processors with AMX, see tools/lab/guest/whole-registers.c. */
import { fileURLToPath } from 'node:url';
import { readFileSync, mkdirSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { buildOnce } from './once.ts';
import { join } from 'node:path';
import { componentFolder } from '../settings/folders.ts';
import { execa } from 'execa';
import { LabError } from '../settings/error.ts';

const source = fileURLToPath(new URL('../guest/whole-registers.c', import.meta.url));

const library = 'whole-registers.so';

/** Whether user-mode Linux 6.1 has no room for all registers of this processor, so that it dies at its start. */
export function hasLargeRegisters(cpuInfo = readFileSync('/proc/cpuinfo', 'utf8')): boolean {
  return /^flags\s*:.* amx_tile( |$)/m.test(cpuInfo);
}

/**
 * The path of the library, which is built if it is not there yet.
 * @throws LabError with what the compiler printed, and the Debian package that it needs.
 */
export async function provideWholeRegisters(): Promise<string> {
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 8);
  const label = `whole-registers-${hash}`;
  // It takes no time that anybody has to be told of.
  await buildOnce({ label, programs: [library] }, () => undefined, compile);
  return join(componentFolder, label, library);
}

async function compile(folder: string): Promise<void> {
  mkdirSync(join(folder, 'bin'));
  const words = ['-shared', '-fPIC', '-O2', '-Wl,-z,now', '-o', join(folder, 'bin', library), source];
  const { failed, code, stderr } = await execa('cc', words, { reject: false });
  if (!failed) return;
  const complaint = code === 'ENOENT' ? 'no cc is in PATH' : stderr;
  throw new LabError(
    `user-mode Linux needs a library on this processor, which cannot be built. Install: apt-get install build-essential\n${complaint}`,
  );
}

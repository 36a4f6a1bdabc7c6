import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { LabError } from '../../lab/settings/error.ts';

/** Where a bench's program in Go is, once it is built from the folder `bench/NAME-program`. */
export function locateProgram(name: string): string {
  return fileURLToPath(new URL(`../../../.cache/bench/${name}`, import.meta.url));
}

/**
 * Builds it, in a second when nothing has changed.
 * @throws LabError with what the compiler says.
 */
export async function buildProgram(name: string): Promise<void> {
  const { exitCode, code, stderr } = await execa(
    'go',
    ['build', '-trimpath', '-buildvcs=false', '-o', locateProgram(name)],
    {
      cwd: fileURLToPath(new URL(`../${name}-program`, import.meta.url)),
      env: { CGO_ENABLED: '0', GOFLAGS: '' },
      reject: false,
    },
  );
  if (exitCode === 0) return;
  throw new LabError(
    code === 'ENOENT' ? 'the bench builds its program with Go, and no go is in PATH' : `go build: ${stderr}`,
  );
}

import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { LabError } from '../../lab/settings/error.ts';

const source = fileURLToPath(new URL('../datapath-program', import.meta.url));

/** The program that is at both ends of what is measured, once it is built. */
export const program = fileURLToPath(new URL('../../.cache/bench/datapath', import.meta.url));

/**
 * Builds it, in a second when nothing has changed.
 * @throws LabError with what the compiler says.
 */
export async function buildProgram(): Promise<void> {
  const { exitCode, code, stderr } = await execa(
    'go',
    ['build', '-trimpath', '-buildvcs=false', '-o', program],
    {
      cwd: source,
      env: { CGO_ENABLED: '0', GOFLAGS: '' },
      reject: false,
    },
  );
  if (exitCode === 0) return;
  throw new LabError(
    code === 'ENOENT' ? 'the bench builds its program with Go, and no go is in PATH' : `go build: ${stderr}`,
  );
}

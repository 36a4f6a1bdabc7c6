import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A program that starts Node.js on a busy machine, and then waits a second or two for sockets. */
const limitMs = 120_000;

/**
 * Runs a TypeScript program in a network namespace of its own, so that fixed ports and abstract sockets are free in
 * every run; the namespace goes with it. `more` are namespaces besides. Answers what it prints, as JSON. Rejects when it fails or hangs.
 */
export async function runInNetworkNamespace(program: URL, more: readonly string[] = []): Promise<unknown> {
  const output = await new Promise<string>((resolve, reject) => {
    const command = [
      ...['--net', '--kill-child', ...more],
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      fileURLToPath(program),
    ];
    execFile('unshare', command, { timeout: limitMs, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program.pathname} failed: ${stderr}`, { cause: error }));
    });
  });
  return JSON.parse(output);
}

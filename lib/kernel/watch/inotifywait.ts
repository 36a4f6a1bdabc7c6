import { existsSync } from 'node:fs';
import { VipnatError } from '../../text/errors.ts';
import { checkDescriptors } from '../tools/descriptors.ts';
import { execTool } from '../tools/exec.ts';
import { toolEnvironment } from '../tools/search-path.ts';
import { toolMissing } from '../tools/tool-errors.ts';
import { isInPath } from '../tools/toolbox.ts';

/** Notified of what the child sees; and the signal that ends the child. */
export interface LockListener {
  /** The lock was taken or released by somebody. */
  readonly onEvent: () => void;
  /** From now on events are seen. */
  readonly onEstablished: () => void;
  /** Ends the child. */
  readonly signal: AbortSignal;
}

/** Watches the xtables lock by an inotifywait child until that dies, and answers why it did. Never rejects. */
export async function runInotifywait({ onEvent, onEstablished, signal }: LockListener): Promise<VipnatError> {
  if (!isInPath('inotifywait')) return toolMissing('inotifywait');
  const [file, ...rest] = await buildCommand();
  const { execa } = await import('execa');
  try {
    checkDescriptors();
  } catch (error) {
    return watchFailed((error as Error).message);
  }
  const child = execa(file, rest, { ...childOptions, env: toolEnvironment(), cancelSignal: signal });
  child.stdout.on('data', onEvent);
  child.stderr.on('data', (text: Buffer) => {
    // inotifywait 3.22 says so on standard error.
    if (text.includes('Watches established')) onEstablished();
  });
  const { shortMessage = 'inotifywait ended' } = await child;
  return watchFailed(shortMessage);
}

function watchFailed(reason: string): VipnatError {
  return new VipnatError(
    'TOOL_FAILED',
    `vipnat cannot watch the xtables lock (${reason}). Until it can, it checks iptables-legacy less often`,
  );
}

const childOptions = {
  stdin: 'ignore',
  buffer: false,
  reject: false,
  killSignal: 'SIGKILL',
} as const;

const inotifywait = [
  'inotifywait',
  '--monitor',
  // Opened for reading and closed: what iptables-legacy does to its lock, and iptables-legacy-save does not.
  ...['--event', 'close_nowrite'],
  ...['--include', String.raw`/xtables\.lock$`],
  ...['--format', '%e'],
  // The folder: the lock file itself may come, go and be replaced.
  '/run',
] as const;

/** In a container it is mounted from the host by itself: then its folder there hears nothing of it. */
const lockFile = '/run/xtables.lock';

/** With util-linux's setpriv the kernel ends the child when we die, even by SIGKILL; without, its next event does (SIGPIPE). */
async function buildCommand(): Promise<readonly [string, ...string[]]> {
  const setpriv = ['setpriv', '--pdeathsig', 'KILL'] as const;
  const probe = { tool: 'setpriv', arguments: [...setpriv.slice(1), 'true'], limitMs: probeLimitMs };
  const isAble = await execTool(probe).then(
    ({ exitCode }) => exitCode === 0,
    () => false,
  );
  const watch = existsSync(lockFile) ? ([...inotifywait, lockFile] as const) : inotifywait;
  return isAble ? [...setpriv, ...watch] : watch;
}

/** It answers in 2 ms. */
const probeLimitMs = 2000;

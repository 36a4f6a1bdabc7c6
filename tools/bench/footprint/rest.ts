/** What an agent takes while nothing happens. */
import { fileURLToPath } from 'node:url';
import type { Namespaces } from '../../../test/support/network/namespaces.ts';
import { readFileSync } from 'node:fs';

/** The program as a host runs it. */
export const product = fileURLToPath(new URL('../../../dist/vipnat.js', import.meta.url));

/** Linux counts process time in hundredths of a second on every architecture we build for. */
const ticksPerSecond = 100;

/** What starting costs is not what resting costs; the first look at 100,000 rules takes a while. */
const warmUpMs = 15_000;

/** An agent at rest. */
export interface Rest {
  readonly megabytes: number;
  readonly secondsPerMinute: number;
}

/** Starts `vipnat run` with these words in a namespace, lets it rest for so many minutes, and ends it. `act` is called when it begins to rest. */
export async function measureAgent(
  { namespaces, namespace, minutes }: { namespaces: Namespaces; namespace: string; minutes: number },
  words: readonly string[],
  act: () => Promise<void> = () => Promise.resolve(),
): Promise<Rest> {
  // The lock file is shared by all namespaces of the machine: somebody else's iptables would be our trigger. What the
  // agent saves is this host's alone.
  const script = 'mount -t tmpfs none /run; mount -t tmpfs none /var/lib; exec "$@"';
  const ownRun = ['unshare', '--mount', 'sh', '-c', script, 'sh'];
  const agent = namespaces.start(namespace, [...ownRun, process.execPath, product, 'run', ...words]);
  agent.stderr?.resume();
  const pid = agent.pid ?? 0;
  await sleep(warmUpMs);
  const before = readTicks(pid);
  await act();
  await sleep(minutes * 60_000);
  const seconds = (readTicks(pid) - before) / ticksPerSecond;
  const rest = { megabytes: readMemory(pid), secondsPerMinute: seconds / minutes };
  agent.kill('SIGTERM');
  return rest;
}

/** The process's own time and that of its children that ended. */
function readTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return fields.slice(11, 15).reduce((total, field) => total + Number(field), 0);
}

/** Resident memory in MiB. */
function readMemory(pid: number): number {
  const [, kilobytes = ''] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

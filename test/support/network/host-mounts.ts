import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';

/**
 * The mounts of one host, as a descriptor of their namespace: /run is its own, with the lock of iptables in it. Without that, each
 * iptables of any test would wake the agents of all others. They are there until `closeMounts`, or until this process ends.
 */
export async function openMounts(namespace: string): Promise<number> {
  const child = spawn('ip', ['netns', 'exec', namespace, 'sh', '-ec', `${mountRun}\necho\nexec cat`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  await Promise.race([once(child.stdout, 'data'), ended]);
  try {
    return openSync(`/proc/${child.pid ?? 0}/ns/mnt`, 'r');
  } finally {
    child.stdin.end();
    await ended;
  }
}

/** The names of network namespaces stay, for `ip link set NAME netns OTHER`. */
const mountRun = `
  mount -t tmpfs tmpfs /mnt
  mkdir /mnt/netns
  mount --rbind /run/netns /mnt/netns
  mount --no-mtab --move /mnt /run`;

/** Takes them away as soon as no process is in them. */
export function closeMounts(descriptor: number): void {
  closeSync(descriptor);
}

/** The words in front of a command that run it in a network namespace with such mounts, and with further ones that only it sees. */
export function enterMounts(networkFile: string, descriptor: number): string[] {
  const enter = [`--net=${networkFile}`, `--mount=/proc/${process.pid}/fd/${descriptor}`];
  return ['nsenter', ...enter, `--wdns=${process.cwd()}`, 'unshare', '--mount', '--propagation', 'slave'];
}

import { cpus, release, totalmem } from 'node:os';

/** What figures depend on: the machine in a few words. */
export function describeMachine(): string {
  const [cpu] = cpus();
  const gigabytes = (totalmem() / 1024 ** 3).toFixed(0);
  return `${cpus().length} cores (${cpu?.model.trim() ?? 'unknown'}), ${gigabytes} GiB of memory, Linux ${release()}`;
}

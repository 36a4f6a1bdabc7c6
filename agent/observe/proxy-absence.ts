import { findProxies } from '../../lib/kube-proxy/processes.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { listProcesses } from '../../lib/kernel/host/processes.ts';
import { askLoopback } from '../../lib/probe/loopback.ts';

/** A restart, also one by a new image, is no absence. */
const restartMs = 60_000;

/** --healthz-bind-address: by default on every address. */
const healthUrls = ['http://127.0.0.1:10256/healthz', 'http://[::1]:10256/healthz'];
const limits = { limitMs: 250, maxLength: 10_000 };

/** Answers whether rules of kube-proxy have nobody to maintain them, by what kube-proxy answered about its mode: null for nothing. Never rejects. */
export type AskProxyAbsence = (mode: string | null) => Promise<boolean>;

/**
 * Whether nothing of kube-proxy is here: nobody answers at its two ports, and no process that can be seen has its name. Once one
 * was seen, it has to be missed for a minute. kube-proxy may listen elsewhere: an agent that also sees no processes of its host takes it to be
 * gone then.
 */
export function createProxyAbsence(
  clock: Clock,
  isSeen: () => Promise<boolean> = isProxySeen,
): AskProxyAbsence {
  let wasSeen = false;
  let missedSince: number | null = null;
  return async (mode) => {
    if (mode !== null || (await isSeen())) {
      wasSeen = true;
      missedSince = null;
      return false;
    }
    // When it was last seen says little: looks can be a minute apart.
    missedSince ??= clock.now();
    return !wasSeen || clock.now() - missedSince >= restartMs;
  };
}

async function isProxySeen(): Promise<boolean> {
  for (const url of healthUrls) if ((await askLoopback(url, limits)) !== null) return true;
  // Where processes cannot be listed, rules are kube-proxy's own word.
  const processes = await listProcesses().catch(() => null);
  return processes === null || findProxies(processes).length > 0;
}

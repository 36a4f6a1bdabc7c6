import { uptime } from 'node:os';
import { isPodKind } from '../../agent/http/pod-kind.ts';
import { podVariable } from '../../config/environment.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { replaceFile } from '../../lib/files/replace-file.ts';
import { hangingMs, Heartbeat, heartbeatFile } from '../../lib/telemetry/heartbeat.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';

/**
 * What the kubelet of this process's pod goes by, from the process's start on; null in no pod that a manifest of ours made.
 * `behindMs` is for how long the loop is behind.
 */
export function createPodHeartbeat(logger: Logger, behindMs: () => number): Heartbeat | null {
  if (!isPodKind(process.env[podVariable] ?? '')) return null;
  return new Heartbeat({
    clock: systemClock,
    uptimeMs: () => uptime() * 1000,
    leftMs: () => hangingMs - behindMs(),
    write: (text) => replaceFile(heartbeatFile, text),
    onProblem: ({ message, code }) => {
      logger.warn(message, { code });
    },
  });
}

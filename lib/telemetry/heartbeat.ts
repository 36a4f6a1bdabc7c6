/**
 * How the kubelet learns whether the agent or the balancer of a pod hangs.
 *
 * Goal: it hears of this process, and of no other.
 * Tension: pods in the host's network share its ports, so a question by HTTP may come to another process, which may be frozen,
 * or to any other program that has the port. A program in the container can ask this process, but Node.js takes long to start.
 * Compromise: the process writes into memory of its own pod until when it counts as alive. The kubelet has the container's
 * shell compare that with the time since boot, which no change of the date moves.
 */
import { uptime } from 'node:os';
import { VipnatError } from '../text/errors.ts';
import { type Cancel, type Clock, systemClock } from '../control/clock.ts';
import { replaceFile } from '../files/replace-file.ts';
import { type Logger } from './logger.ts';
import { isPodKind } from './pod-kind.ts';

/** Where the heartbeat is. Every pod has a /dev/shm of its own, which can be written on a read-only root file system, too. */
export const heartbeatFile = '/dev/shm/vipnat-alive';

/** The program by which a kubelet asks: it ends with 0 while the process is alive. It starts no other program. */
export const heartbeatProbe = [
  'sh',
  '-c',
  `read -r now _ </proc/uptime && read -r until <${heartbeatFile} && [ "\${now%.*}" -lt "$until" ]`,
] as const;

const beatMs = 5000;

/**
 * A look is a dozen tools, each with a limit of 10 s, so the longest takes less. Beyond that the loop hangs, which a
 * restart can help; that a tool or the API fails ends a look and is no reason to be restarted.
 */
export const hangingMs = 120_000;

/** What a heartbeat needs of the world, and its listener. */
export interface HeartbeatOptions {
  readonly clock: Clock;
  /** Milliseconds since boot, by /proc/uptime. */
  readonly uptimeMs: () => number;
  /** Milliseconds that are left until the process counts as hanging; negative since then. */
  readonly leftMs: () => number;
  /** Replaces the file. */
  readonly write: (text: string) => Promise<void>;
  /** It cannot be written, for the first time in a row: HEARTBEAT_NOT_WRITTEN. It goes on trying. */
  readonly onProblem: (error: VipnatError) => void;
}

/** Says every few seconds until when the process is alive. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #cancel: Cancel = () => undefined;
  #isStopped = false;
  #hasFailed = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Writes for the first time, and goes on. Never rejects. */
  async start(): Promise<void> {
    await this.#beat();
  }

  /** Writes no more: what was written runs out. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  async #beat(): Promise<void> {
    const { clock, uptimeMs, leftMs, write } = this.#options;
    await write(`${Math.floor((uptimeMs() + leftMs()) / 1000)}\n`).then(
      () => (this.#hasFailed = false),
      (error: unknown) => {
        this.#fail(error);
      },
    );
    if (!this.#isStopped) this.#cancel = clock.schedule(beatMs, () => void this.#beat());
  }

  #fail(error: unknown): void {
    const { code, message } = error as NodeJS.ErrnoException;
    const next = 'Until vipnat can write it, the kubelet restarts this pod again and again';
    if (!this.#hasFailed) {
      this.#options.onProblem(
        new VipnatError(
          'HEARTBEAT_NOT_WRITTEN',
          `writing ${heartbeatFile} failed (${code ?? message}). ${next}`,
          { cause: error },
        ),
      );
    }
    this.#hasFailed = true;
  }
}

/**
 * What the kubelet of this process's pod goes by, from the process's start on; null in no pod that a manifest of ours made.
 * `pod` is what VIPNAT_POD says, and `behindMs` for how long the loop is behind.
 */
export function createPodHeartbeat(
  pod: string | null,
  logger: Logger,
  behindMs: () => number,
): Heartbeat | null {
  if (!isPodKind(pod ?? '')) return null;
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

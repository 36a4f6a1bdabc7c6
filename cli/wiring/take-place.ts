import { awaitRole, type Claim } from '../../lib/http/await-presence.ts';
import { type HolderInfo, printFind, type Release, type Role } from '../../lib/http/presence.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';

/** What a program that may have to wait needs. */
export interface PlaceOptions extends Claim {
  readonly logger: Logger;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Begins to tell whoever asks why this program waits; null for nobody. Called once, when the wait begins. */
  readonly serve: (reason: () => string) => Served | null;
}

/** What serves while a program waits. */
export interface Served {
  stop(): Promise<void>;
}

/**
 * Gets a role in this host's network, after the program that has it now, if any. Writes nothing meanwhile. Answers what
 * gives the role back; null where the signal came first.
 */
export async function takePlace(options: PlaceOptions): Promise<Release | null> {
  const { role, logger, signal, serve } = options;
  let waiting: { readonly served: Served | null; readonly since: number } | null = null;
  let reason = '';
  const onHolder = (holder: HolderInfo | null) => {
    reason = describeWait(role, holder);
    logger.warn(reason, { code: role.code });
    waiting ??= { served: serve(() => reason), since: systemClock.now() };
  };
  const release = await awaitRole(options, { clock: systemClock, signal, onHolder });
  const waited = waiting as { readonly served: Served | null; readonly since: number } | null;
  await waited?.served?.stop();
  if (release !== null && waited !== null) {
    const seconds = ((systemClock.now() - waited.since) / 1000).toFixed(1);
    logger.info(`vipnat takes over from the ${role.title} that ended, after ${seconds} s`);
  }
  return release;
}

/** Its process id is its own: it may run in another pid namespace. */
function describeWait(role: Role, holder: HolderInfo | null): string {
  const find = `${printFind(role)} on the host finds it`;
  return holder === null
    ? `waiting for another process, which listens on vipnat's socket in this network namespace and does not answer (${find}). vipnat writes nothing until that process ends`
    : `waiting for another ${role.title} of this host to end: vipnat ${holder.version}, since ${holder.since}, pid ${holder.pid} in its pid namespace (${find}). vipnat writes nothing until then`;
}

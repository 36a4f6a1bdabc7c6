import { parseEndpoint } from '../../lib/address/endpoint.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { Pause } from '../../lib/control/pause.ts';
import { createDrainStore, type DrainStore } from '../../lib/files/drain-store.ts';
import { readInterfaces } from '../../lib/kernel/host/interfaces.ts';
import { createDrainRule } from '../../lib/kernel/real/drain-rule.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Health, type HealthView } from '../health/usable.ts';
import { askAgentDrain, type DrainState } from './agent-drain.ts';
import { askAgentHealth } from './agent-health.ts';

/** One look at a busy host, and a write. */
const patienceMs = 15_000;
const pauseMs = 100;

/** How this host is to be drained. */
export interface DrainWish {
  readonly stateDir: string;
  /** Also where no other apiserver takes new connections. */
  readonly force: boolean;
  /** Find out what would be done, and change nothing. */
  readonly dryRun: boolean;
}

/** What a drain is about. */
export interface HostDrainPlan {
  /** The file that says it. */
  readonly location: string;
  /** The ports of this host's apiservers. */
  readonly ports: readonly number[];
  /** Since when this host is drained; null where nothing was done. */
  readonly since: Date | null;
}

/**
 * Writes into the state folder that this host is drained, and waits until its agent keeps it so.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent says
 */
export async function drainThisHost({ stateDir, force, dryRun }: DrainWish): Promise<HostDrainPlan> {
  const store = createDrainStore(stateDir);
  const { location } = store;
  const [state, health] = await Promise.all([askAgentDrain(), askAgentHealth()]);
  if (state === null || health === null) {
    throw refuse('no agent that can drain runs on this host. Start it first: the agent keeps the drain');
  }
  const { local: ports, others } = splitHealth(health);
  if (state.since === null && !force && others.length === 0) {
    throw refuse(
      'no apiserver on another host is ready, so clients would have none left. Repair one first (vipnat status), or add --force',
    );
  }
  if (dryRun) return { location, ports, since: null };
  const since = state.since ?? (await begin(store));
  await waitForAgent(location, isDrained);
  return { location, ports, since };
}

/**
 * Takes it back. Without an agent it removes the rule itself. Answers whether this host was drained.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent or nft says
 */
export async function undrainThisHost(stateDir: string): Promise<boolean> {
  const store = createDrainStore(stateDir);
  const wasDrained = (await store.load()) !== null;
  await store.save(null);
  if ((await askAgentDrain()) === null) await createDrainRule().write([]);
  else await waitForAgent(store.location, (now) => now.since === null);
  return wasDrained;
}

const isDrained = ({ since }: DrainState) => since !== null;

/** Writes the file. What the agent does not read must not drain an agent that starts later: then the file is removed again. */
async function begin(store: DrainStore): Promise<Date> {
  const since = systemClock.date();
  await store.save(since);
  const last = await askUntil(isDrained);
  if (last === null || isDrained(last)) return since;
  await store.save(null);
  throw refuse(explainUnread(store.location, last));
}

function refuse(why: string): VipnatError {
  return new VipnatError('DRAIN_REFUSED', why);
}

/** The ports of this host's apiservers, and those of others that take new connections. */
function splitHealth(health: HealthView): { readonly local: number[]; readonly others: string[] } {
  const addresses = new Set(readInterfaces().map(({ address }) => address));
  const isLocal = (text: string) => addresses.has(parseEndpoint(text)?.address ?? '');
  const ports = [...health.keys()].filter(isLocal).flatMap((text) => parseEndpoint(text)?.port ?? []);
  const isTaking = ({ state, isSilent = false }: Health) => state === 'ready' && !isSilent;
  return {
    local: [...new Set(ports)],
    others: [...health].filter(([text, one]) => !isLocal(text) && isTaking(one)).map(([text]) => text),
  };
}

/** Until the agent has read the file and has done what follows. */
async function waitForAgent(location: string, isRead: (state: DrainState) => boolean): Promise<void> {
  const last = await askUntil((state) => isRead(state) && state.isKept);
  if (last === null) throw refuse('the agent ended meanwhile. It reads the change when it starts');
  if (!isRead(last)) throw refuse(explainUnread(location, last));
  if (last.isKept) return;
  throw refuse(
    last.problem === null
      ? 'the agent has read the change, but has not changed its rule yet. vipnat status tells how it is'
      : `the agent has read the change, but could not change its rule, and tries again: ${last.problem}`,
  );
}

function explainUnread(location: string, { problem }: DrainState): string {
  return problem === null
    ? `the agent does not read ${location}. If it has another --state-dir, repeat the command with that option`
    : `the agent failed: ${problem}`;
}

/** What the agent says last: as soon as it is as wanted, or when patience ends; null where no agent answers then. */
async function askUntil(isWanted: (state: DrainState) => boolean): Promise<DrainState | null> {
  const until = systemClock.now() + patienceMs;
  const pause = new Pause(systemClock);
  for (;;) {
    const state = await askAgentDrain();
    if ((state !== null && isWanted(state)) || systemClock.now() >= until) return state;
    await pause.wait(pauseMs);
  }
}

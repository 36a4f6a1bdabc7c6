import { type DrainStore, type Drain, createDrainStore, overwriteFile } from '../lib/files.ts';
import { type DrainRule, createDrainRule } from '../lib/kernel/iptables.ts';
import { type Clock, systemClock, sleep, Rounds } from '../lib/clock.ts';
import { type GivenUpVipsPorts, GivenUpVips } from './vip-holder.ts';
import { VipnatError, orElse } from '../lib/errors.ts';
import { type DrainState, askAgentDrain, askAgentHealth } from './ask.ts';
import type { Assessment } from './decide/decision.ts';
import type { HealthView, Health } from './health/usable.ts';
import type { Config } from '../config/options.ts';
import { parseEndpoint } from '../lib/net.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import { readInterfaces } from '../lib/kernel/host.ts';

/**
 * Keeps this host drained, as long as its state folder says so: docs/adr/0025.
 *
 * Goal: an operator's drain outlives the agent and a reboot, and other software cannot undo it by accident.
 * Tension: nearly no host is ever drained, so that must cost nothing; and a drain that is forgotten costs a master.
 * Compromise: each sync reads a small file. Rules are read only while the file is there, and once after it is gone. The log
 * says once a day that the file is there.
 */

/** The dependencies of the drain. */
export interface DrainPorts {
  readonly store: Pick<DrainStore, 'load' | 'addVipStays'>;
  readonly rule: DrainRule;
  readonly clock: Clock;
  readonly askLink: GivenUpVipsPorts['askLink'];
  readonly logger: Logger;
  /** Called when the VIPs are to leave this host, or no longer: whether it may hold them has to be judged. */
  readonly onChange: () => void;
}

const dayMs = 86_400_000;

/** One reading of the file, and of the rule, at a time. */
export class HostDrain {
  readonly #ports: DrainPorts;
  readonly #loaded: Promise<void>;
  #drain: Drain | null = null;
  readonly #givenUp: GivenUpVips;
  /** Whether the agent last reported to keepalived that this node can serve. */
  #isServing = true;
  /** Of this host's apiservers, as last seen; null before that. */
  #apiserverPorts: readonly number[] | null = null;
  /** The last answer to a sync of whether the VIPs are to leave, and the answer by which the last complete one judged. */
  #answered = false;
  #judged = false;
  #isKept = false;
  #problem: VipnatError | null = null;
  #reportedAt = -Infinity;
  readonly #checks: Rounds;
  #isAsked = false;
  #isLoaded = false;
  #wasDrained = false;

  constructor(ports: DrainPorts) {
    this.#ports = ports;
    const { clock, askLink } = ports;
    this.#givenUp = new GivenUpVips({ clock, askLink, onVacant: this.#letVipsStay.bind(this) });
    this.#loaded = this.#attempt(() => this.#load());
    this.#checks = new Rounds(clock, this.#check.bind(this), () => (this.#isAsked ? 0 : null));
  }

  /** How it is now, without what the track file says. */
  get state(): Omit<DrainState, 'vipProblem'> {
    const { since = null, vipStaysSince = null } = this.#drain ?? {};
    const isKept = this.#isKept && this.#judged === isLeaving(this.#drain);
    return { since, vipStaysSince, isKept, problem: this.#problem?.message ?? null };
  }

  /** Whether the VIPs are to leave this host; after a start, as soon as the file was read. */
  async isLeaving(): Promise<boolean> {
    await this.#loaded;
    this.#answered = isLeaving(this.#drain);
    return this.#answered;
  }

  /** To be called with each sync, after it has said whether this node can serve. Returns immediately. */
  synced(assessment: Pick<Assessment, 'decisions' | 'health' | 'observation'>): void {
    this.#judged = this.#answered;
    const { health, observation } = assessment;
    this.#givenUp.synced(assessment);
    const local = new Set(observation.addresses.map(({ address }) => address));
    this.#apiserverPorts = findPorts(health, local);
    this.check();
  }

  /** The agent has reported to keepalived whether this node can serve: if not, keepalived gives the VIPs up. */
  changed(isServing: boolean): void {
    this.#isServing = isServing;
    this.#followVips();
  }

  /** Reads the file again, as somebody has changed it. Returns immediately. */
  check(): void {
    this.#isAsked = true;
    this.#checks.plan();
  }

  /** Ends with the write in progress. The rule stays (I8). */
  async stop(): Promise<void> {
    const checked = this.#checks.stop();
    this.#givenUp.follow(false);
    await this.#loaded;
    await checked;
  }

  async #check(): Promise<void> {
    await this.#loaded;
    this.#isAsked = false;
    await this.#attempt(async () => {
      await this.#load();
      await this.#keep();
    });
  }

  async #load(): Promise<void> {
    const { store, clock, logger, onChange } = this.#ports;
    const before = this.#drain;
    this.#drain = keepReason(before, await store.load());
    const isNews = (before === null) !== (this.#drain === null);
    if (isNews) {
      this.#isKept = false;
      this.#reportedAt = -Infinity;
    }
    // The first sync is still to come.
    if (this.#isLoaded && isLeaving(before) !== isLeaving(this.#drain)) onChange();
    this.#isLoaded = true;
    this.#followVips();
    this.#wasDrained ||= this.#drain !== null;
    if (isNews && this.#drain === null) logger.info('this host is no longer drained');
    if (this.#drain === null || clock.now() - this.#reportedAt < dayMs) return;
    this.#reportedAt = clock.now();
    logger.warn(describeDrain(this.#drain));
  }

  #followVips(): void {
    this.#givenUp.follow(!this.#checks.isStopped && !this.#isServing && isLeaving(this.#drain));
  }

  /** No other host has taken this VIP: one that is drained is better than none. */
  #letVipsStay(vip: string): void {
    const { store, clock, logger, onChange } = this.#ports;
    if (this.#drain === null || !isLeaving(this.#drain)) return;
    const vipStaysSince = clock.date();
    this.#drain = { ...this.#drain, vipStaysSince };
    logger.warn(
      `no other host has taken ${vip}: this host may hold it until vipnat undrain. vipnat doctor says what to do`,
    );
    onChange();
    void this.#attempt(() => store.addVipStays(vipStaysSince));
  }

  async #keep(): Promise<void> {
    const { rule, logger } = this.#ports;
    const isDrained = this.#drain !== null;
    // Where no apiserver is known, a rule that is there is the best that can be.
    if ((!isDrained && this.#isKept) || this.#apiserverPorts === null) return;
    const wanted = isDrained ? this.#apiserverPorts : [];
    if (isDrained && wanted.length === 0) return;
    const seen = await this.#readRule();
    if (seen?.join() !== wanted.join()) {
      await rule.write(wanted);
      logger.info(
        isDrained
          ? `wrote the table vipnat-drain: drain checks at port ${wanted.join(', ')} are refused`
          : 'removed the table vipnat-drain: drain checks are accepted',
      );
    }
    this.#isKept = true;
  }

  /** A host that cannot have such a rule, and is not to, has none. */
  #readRule(): Promise<readonly number[] | null> {
    const reading = this.#ports.rule.read();
    return this.#wasDrained ? reading : orElse(reading, []);
  }

  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.#problem = null;
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      this.#isKept = false;
      const { message, code } = error;
      if (this.#problem === null) this.#ports.logger.warn(message, { code });
      this.#problem = error;
    }
  }
}

function describeDrain({ since, vipStaysSince }: Drain): string {
  const vip = vipStaysSince === null ? 'the VIP leaves' : 'the VIP may stay, because no other host took it';
  return `this host is drained since ${since.toISOString()}: its apiserver gets no new connections, and ${vip}. vipnat undrain ends that`;
}

function isLeaving(drain: Drain | null): boolean {
  return drain !== null && drain.vipStaysSince === null;
}

/** That the VIPs stay counts as long as the same drain, also where it could not be written. */
function keepReason(before: Drain | null, now: Drain | null): Drain | null {
  if (before === null || now === null || before.since.getTime() !== now.since.getTime()) return now;
  return { ...now, vipStaysSince: now.vipStaysSince ?? before.vipStaysSince };
}

/** Those of this host's apiservers, ascending; of all, where none is known to be here. */
function findPorts(health: HealthView, local: ReadonlySet<string>): number[] {
  const all = [...health.keys()].map(parseEndpoint).filter((endpoint) => endpoint !== null);
  const own = all.filter(({ address }) => local.has(address));
  const ports = (own.length > 0 ? own : all).map(({ port }) => port);
  return [...new Set(ports)].toSorted((one, other) => one - other);
}

/** One sync on a busy host, and a write. */
const maxWaitMs = 15_000;
const pauseMs = 100;

interface HostDrainPlan {
  readonly location: string;
  /** The ports of this host's apiservers. */
  readonly ports: readonly number[];
  /** Since when this host is drained; null where nothing was done. */
  readonly since: Date | null;
}

/**
 * Drains this host: its agent keeps its apiserver out of new connections. Writes that into the state folder, and ends when the agent does so.
 * `force`: also where no other apiserver takes new connections. `dryRun`: finds out what would be done, and changes nothing.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent says
 */
export async function drainHost(
  { stateDir }: Pick<Config, 'stateDir'>,
  { force, dryRun }: Readonly<Record<'force' | 'dryRun', boolean>>,
): Promise<HostDrainPlan> {
  const store = createDrainStore(stateDir);
  const { location } = store;
  const [state, health] = await Promise.all([askAgentDrain(), askAgentHealth()]);
  if (state === null || health === null)
    throw refuse('no agent that can drain runs on this host. Start it first: the agent keeps the drain');
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
 * Ends the drain of this host. Without an agent it removes the rule itself, and keepalived may go by the track file again. Answers whether this
 * host was drained.
 * @throws VipnatError DRAIN_REFUSED, STATE_NOT_WRITTEN, or what the agent or nft says
 */
export async function undrainHost(
  { stateDir }: Pick<Config, 'stateDir'>,
  trackFile: string,
): Promise<boolean> {
  const store = createDrainStore(stateDir);
  const wasDrained = (await store.load()) !== null;
  await store.save(null);
  if ((await askAgentDrain()) === null) {
    if (wasDrained) await overwriteFile(trackFile, '0\n').catch(() => undefined);
    await createDrainRule().write([]);
  } else await waitForAgent(store.location, (now) => now.since === null);
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

/** Why the agent has not done all that follows from a change that it has read. Pure. */
export function explainUnkept({ problem, vipProblem }: DrainState): VipnatError {
  const read = 'the agent has read the change, but';
  if (problem !== null) return refuse(`${read} could not change its rule, and tries again: ${problem}`);
  if (vipProblem === null) return refuse(`${read} has not done it yet. vipnat status tells how it is`);
  const text = `${read} the virtual IPs do not move: ${vipProblem}. It tries again within a minute`;
  return new VipnatError('TRACK_FILE_NOT_WRITTEN', text);
}

function refuse(why: string): VipnatError {
  return new VipnatError('DRAIN_REFUSED', why);
}

/** The ports of this host's apiservers, and the other hosts' apiservers that take new connections. */
function splitHealth(health: HealthView): { readonly local: number[]; readonly others: string[] } {
  const addresses = new Set(readInterfaces().map(({ address }) => address));
  const isLocal = (text: string) => addresses.has(parseEndpoint(text)?.address ?? '');
  const ports = [...health.keys()].filter(isLocal).flatMap((text) => parseEndpoint(text)?.port ?? []);
  const isTaking = ({ state, isUnresponsive = false }: Health) => state === 'ready' && !isUnresponsive;
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
  if (!last.isKept) throw explainUnkept(last);
}

function explainUnread(location: string, { problem }: DrainState): string {
  return problem === null
    ? `the agent does not read ${location}. If it has another --state-dir, repeat the command with that option`
    : `the agent failed: ${problem}`;
}

/** The agent's last answer: as soon as it is as wanted, or at the time limit; null where no agent answers then. */
async function askUntil(isWanted: (state: DrainState) => boolean): Promise<DrainState | null> {
  const until = systemClock.now() + maxWaitMs;
  for (;;) {
    const state = await askAgentDrain();
    if ((state !== null && isWanted(state)) || systemClock.now() >= until) return state;
    await sleep(systemClock, pauseMs);
  }
}

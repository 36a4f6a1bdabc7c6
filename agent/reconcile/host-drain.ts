/**
 * Keeps this host drained, as long as its state folder says so: docs/adr/0025.
 *
 * Goal: an operator's word outlives the agent and a reboot, and other software cannot take it back by chance.
 * Tension: nearly no host is ever drained, so that must cost nothing; and a word that is forgotten costs a master.
 * Compromise: a small file is read with each look. Rules are read only while it is there, and once after it is gone. The log
 * says once a day that it is there.
 */
import { parseEndpoint } from '../../lib/address/endpoint.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type DrainRule } from '../../lib/kernel/real/drain-rule.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Assessment } from '../decide/assess.ts';
import { type Drain, type DrainStore } from '../../lib/files/drain-store.ts';
import { type HealthView } from '../health/usable.ts';
import { type DrainState } from '../http/agent-drain.ts';
import { GivenUpVips, type GivenUpVipsPorts } from '../keepalived/given-up-vips.ts';
import { type DrainListener } from '../report/drain-log.ts';

/** What it needs of the world. */
export interface DrainPorts {
  readonly store: Pick<DrainStore, 'load' | 'addVipStays'>;
  readonly rule: DrainRule;
  readonly clock: Clock;
  readonly askLink: GivenUpVipsPorts['askLink'];
  readonly report: DrainListener;
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
  /** Whether keepalived was told that this node can serve. */
  #isServing = true;
  /** Of this host's apiservers, as last looked at; null before that. */
  #apiserverPorts: readonly number[] | null = null;
  #isKept = false;
  #problem: VipnatError | null = null;
  #toldAt = -Infinity;
  #work: Promise<void> | null = null;
  #isAsked = false;
  #isStopped = false;
  /** Whether the file was read at all. */
  #isLoaded = false;
  /** Whether this process has seen this host drained. */
  #wasDrained = false;

  constructor(ports: DrainPorts) {
    this.#ports = ports;
    const { clock, askLink } = ports;
    const onVacant = (vip: string) => {
      this.#letVipsStay(vip);
    };
    this.#givenUp = new GivenUpVips({ clock, askLink, onVacant });
    this.#loaded = this.#attempt(() => this.#load());
  }

  /** How it is now. */
  get state(): DrainState {
    const { since = null, vipStaysSince = null } = this.#drain ?? {};
    return { since, vipStaysSince, isKept: this.#isKept, problem: this.#problem?.message ?? null };
  }

  /** Whether the VIPs are to leave this host; after a start, as soon as the file was read. */
  async isLeaving(): Promise<boolean> {
    await this.#loaded;
    return isLeaving(this.#drain);
  }

  /** To be called with each look. Returns at once. */
  looked(assessment: Pick<Assessment, 'decisions' | 'health' | 'observation'>): void {
    const { health, observation } = assessment;
    this.#givenUp.looked(assessment);
    const local = new Set(observation.addresses.map(({ address }) => address));
    this.#apiserverPorts = findPorts(health, local);
    this.check();
  }

  /** keepalived was told whether this node can serve: if not, it gives the VIPs up. */
  changed(isServing: boolean): void {
    this.#isServing = isServing;
    this.#followVips();
  }

  /** Reads the file again, as somebody has changed it. Returns at once. */
  check(): void {
    if (this.#isStopped) return;
    this.#isAsked = true;
    this.#work ??= this.#goOn().finally(() => (this.#work = null));
  }

  /** Ends with the write under way. The rule stays (I8). */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#givenUp.follow(false);
    await this.#loaded;
    await this.#work;
  }

  async #goOn(): Promise<void> {
    await this.#loaded;
    while (this.#isAsked && !this.#isStopped) {
      this.#isAsked = false;
      await this.#attempt(async () => {
        await this.#load();
        await this.#keep();
      });
    }
  }

  async #load(): Promise<void> {
    const { store, clock, report, onChange } = this.#ports;
    const before = this.#drain;
    this.#drain = keepWord(before, await store.load());
    const isNews = (before === null) !== (this.#drain === null);
    if (isNews) {
      this.#isKept = false;
      this.#toldAt = -Infinity;
    }
    // The first look is still to come.
    if (this.#isLoaded && isLeaving(before) !== isLeaving(this.#drain)) onChange();
    this.#isLoaded = true;
    this.#followVips();
    this.#wasDrained ||= this.#drain !== null;
    if (isNews && this.#drain === null) report.undrained();
    if (this.#drain === null || clock.now() - this.#toldAt < dayMs) return;
    this.#toldAt = clock.now();
    report.drained(this.#drain);
  }

  #followVips(): void {
    this.#givenUp.follow(!this.#isStopped && !this.#isServing && isLeaving(this.#drain));
  }

  /** No other host has taken this VIP: one that is drained is better than none. */
  #letVipsStay(vip: string): void {
    const { store, clock, report, onChange } = this.#ports;
    if (this.#drain === null || !isLeaving(this.#drain)) return;
    const vipStaysSince = clock.date();
    this.#drain = { ...this.#drain, vipStaysSince };
    report.vipStays(vip);
    onChange();
    void this.#attempt(() => store.addVipStays(vipStaysSince));
  }

  async #keep(): Promise<void> {
    const { rule, report } = this.#ports;
    const isDrained = this.#drain !== null;
    // Where no apiserver is known, a rule that is there is the best that can be.
    if ((!isDrained && this.#isKept) || this.#apiserverPorts === null) return;
    const wanted = isDrained ? this.#apiserverPorts : [];
    if (isDrained && wanted.length === 0) return;
    const seen = await this.#readRule();
    if (seen?.join() !== wanted.join()) {
      await rule.write(wanted);
      report.drainRuleWritten(wanted);
    }
    this.#isKept = true;
  }

  /** A host that cannot have such a rule, and is not to, has none. */
  async #readRule(): Promise<readonly number[] | null> {
    const { rule } = this.#ports;
    if (this.#wasDrained) return await rule.read();
    return await rule.read().catch((error: unknown) => {
      if (error instanceof VipnatError) return [];
      throw error;
    });
  }

  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.#problem = null;
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      this.#isKept = false;
      if (this.#problem === null) this.#ports.report.drainFailed(error);
      this.#problem = error;
    }
  }
}

function isLeaving(drain: Drain | null): boolean {
  return drain !== null && drain.vipStaysSince === null;
}

/** That the VIPs stay counts as long as the same drain, also where it could not be written. */
function keepWord(before: Drain | null, now: Drain | null): Drain | null {
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

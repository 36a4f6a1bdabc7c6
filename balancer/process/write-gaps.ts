/**
 * When changes may be written.
 *
 * Goal: a change is in the kernel some milliseconds later.
 * Tension: iptables-nft-save begins again whenever anybody has written to nftables meanwhile (1.8.9). With ten writes a second, it never
 * ends on a host with 17,000 rules: kube-proxy hangs, and `vipnat run` repairs nothing.
 * Compromise: changes are written at once for half a second. Then there is a gap in which all other rules can be listed twice. A host with few
 * rules needs no gap.
 */
import { type Clock } from '../../lib/control/clock.ts';

/** For so long changes are written as they come. */
const burstMs = 500;

/** iptables-nft-save 1.8.9 takes 0.012 ms for a rule, three times that on a busy host; a rule to a chain counts twice. */
const gapPerRuleMs = 0.04;

/** Between the writes of a burst there is as much anyway. */
const leastGapMs = 50;

/** With more rules, other programs may take longer. */
const mostGapMs = 2000;

/** Where rules cannot be counted: there are too many, or the host is too busy, to do so in a second. */
const unknownGapMs = 1000;

/** Rules of others grow slowly. */
const countEveryMs = 30_000;

/** Rejects never. */
export class WriteGaps {
  readonly #clock: Clock;
  readonly #countRules: () => Promise<number>;
  #gapMs: number | null = null;
  #countedAt = -Infinity;
  #burstSince = -Infinity;
  #wroteAt = -Infinity;

  /** `countRules` answers how many rules others have. */
  constructor(clock: Clock, countRules: () => Promise<number>) {
    this.#clock = clock;
    this.#countRules = countRules;
  }

  /** In how long changes may be written; 0 is now. */
  get waitMs(): number {
    const now = this.#clock.now();
    const isInBurst = now - this.#burstSince < burstMs;
    return isInBurst ? 0 : Math.max(0, this.#wroteAt + (this.#gapMs ?? 0) - now);
  }

  /** To be called after each write of changes. */
  async noteWrite(): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#burstSince >= burstMs) this.#burstSince = now;
    if (now - this.#countedAt >= countEveryMs) await this.#measure(now);
    this.#wroteAt = this.#clock.now();
  }

  async #measure(now: number): Promise<void> {
    this.#countedAt = now;
    const [count] = await Promise.allSettled([this.#countRules()]);
    if (count.status === 'rejected') {
      this.#gapMs ??= unknownGapMs;
      return;
    }
    const gapMs = Math.min(mostGapMs, count.value * gapPerRuleMs);
    this.#gapMs = gapMs < leastGapMs ? 0 : gapMs;
  }
}

import type { Logger } from '../lib/telemetry/log.ts';
import type { VipnatError } from '../lib/errors.ts';
import type { Balances, PortBalance } from './services/backends.ts';
import { formatEndpoint } from '../lib/net.ts';
import type { Clock } from '../lib/clock.ts';

/** A sync may change thousands of Services, and a Service may have thousands of ports: more than these are counted. */
const maxNamed = 5;

/** One line for each change, none when all is as it was. */
export class SyncLog {
  readonly #logger: Logger;
  readonly #serviceToLine = new Map<string, string>();
  readonly #serviceToRefused = new Map<string, readonly string[]>();
  readonly #serviceToRemarks = new Map<string, readonly string[]>();
  readonly #serviceToLeft = new Map<string, string>();
  #refused: ReadonlyMap<string, string> = new Map();
  #problem: string | null = null;
  #hasLetGo = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** How Services are balanced from now on, once the kernel has it. */
  balanced(changes: ReadonlyMap<string, Balances>): void {
    const lines: string[] = [];
    for (const [service, balances] of changes) {
      const line = describe(service, balances);
      const before = this.#serviceToLine.get(service) ?? `${service} is not balanced`;
      if (line === before) continue;
      lines.push(describe(service, balances, maxNamed));
      if (balances.length === 0) this.#serviceToLine.delete(service);
      else this.#serviceToLine.set(service, line);
    }
    for (const line of lines.slice(0, maxNamed)) this.#logger.info(line);
    const more = lines.length - maxNamed;
    if (more > 0) this.#logger.info(`${more} more Services are balanced otherwise now`);
  }

  /** Endpoints of a Service that cannot be used, a sentence each. */
  refused(service: string, sentences: readonly string[]): void {
    const before = this.#serviceToRefused.get(service) ?? [];
    for (const sentence of sentences.slice(0, maxNamed)) {
      if (!before.includes(sentence)) this.#logger.warn(`${sentence}: no connection goes there`);
    }
    if (sentences.length === 0) this.#serviceToRefused.delete(service);
    else this.#serviceToRefused.set(service, sentences);
  }

  /** What a Service asks for and does not get, a sentence each: once until it changes. */
  remarks(service: string, sentences: readonly string[]): void {
    const before = this.#serviceToRemarks.get(service) ?? [];
    for (const sentence of sentences) if (!before.includes(sentence)) this.#logger.warn(sentence);
    if (sentences.length === 0) this.#serviceToRemarks.delete(service);
    else this.#serviceToRemarks.set(service, sentences);
  }

  /** Why a Service is kube-proxy's although nobody asks for that, a clause; null where it is not: once until it changes. */
  left(service: string, clause: string | null): void {
    const before = this.#serviceToLeft.get(service) ?? null;
    if (clause === null) this.#serviceToLeft.delete(service);
    else this.#serviceToLeft.set(service, clause);
    if (clause !== null && clause !== before)
      this.#logger.warn(`vipnat leaves ${service} to kube-proxy: ${clause}`);
  }

  /** The Services that nft or the kernel refuses, to why. All of them: once until that changes. */
  notTaken(refused: ReadonlyMap<string, string>): void {
    for (const [service, reason] of refused) {
      if (this.#refused.get(service) === reason) continue;
      this.#logger.error(
        `vipnat leaves ${service} to kube-proxy, and tries it again: ${reason}. This changes nothing for other Services`,
        { code: 'TOOL_FAILED' },
      );
    }
    this.#refused = refused;
  }

  /** The kernel did not take it: once until it does. */
  failed({ code, message, details }: VipnatError): void {
    if (this.#problem === message) return;
    this.#problem = message;
    const fields = details === undefined ? { code } : { code, details };
    this.#logger.error(
      `vipnat cannot write its table: ${message}. The table before stays, and vipnat tries again`,
      fields,
    );
  }

  /** What was written last is too old: once until it is written again. */
  letGo(): void {
    if (this.#hasLetGo) return;
    this.#hasLetGo = true;
    this.#logger.error(
      "vipnat lets its table run out, as it is too old: kube-proxy's rules get the connections",
    );
  }

  /** The kernel has all that is wanted. */
  done(): void {
    if (this.#problem !== null) this.#logger.info('vipnat writes its table again');
    this.#problem = null;
    this.#hasLetGo = false;
  }
}

function describe(service: string, balances: Balances, most = Infinity): string {
  if (balances.length === 0) return `${service} is not balanced`;
  const more = balances.length - most;
  const rest = more > 0 ? ` and ${more} more ports` : '';
  return `${service} is balanced: ${balances.slice(0, most).map(describePort).join(', ')}${rest}`;
}

function describePort(balance: PortBalance): string {
  const { family, addresses, protocol, port } = balance;
  const vips = addresses.map((address) => formatEndpoint({ family, address, port })).join(' and ');
  const isUneven = [...(balance.parts?.values() ?? [])].some((part) => part !== 1);
  const shares = isUneven ? ', more to endpoints with fewer open connections' : '';
  return `${vips} ${protocol} to ${describeEnds(balance)}${shares}`;
}

function describeEnds({ isHere, relay, backends: { length: count } }: PortBalance): string {
  const nodes = relay?.nodes.size ?? 0;
  const elsewhere = `${nodes} other node${nodes === 1 ? '' : 's'}`;
  if (!isHere) return elsewhere;
  const here = count === 0 ? 'nobody' : `${count} endpoint${count === 1 ? '' : 's'}`;
  return nodes === 0 ? here : `${here} here and to ${elsewhere}`;
}

/**
 * When changes may be written.
 *
 * Goal: a change is in the kernel some milliseconds later.
 * Tension: iptables-nft-save begins again whenever anybody has written to nftables meanwhile (1.8.9). With ten writes a second, it never
 * ends on a host with 17,000 rules: kube-proxy hangs, and `vipnat run` repairs nothing.
 * Compromise: changes are written immediately for half a second. Then there is a gap in which all other rules can be listed twice. A host
 * with few rules needs no gap.
 */

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

/** Foreign rules grow slowly. */
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

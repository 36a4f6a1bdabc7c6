/**
 * Writes Services so that one that nft or the kernel refuses keeps no other.
 *
 * Goal: all others are programmed, and the log, the metric and the node's report name the one that is not.
 * Tension: one transaction for all is what keeps packets from seeing half of a change, and a refusal of it names nobody.
 * Compromise: only after a refusal nft is asked about halves of the Services, without effect, until it is known who it was: twice as often
 * as the number of Services has binary digits. That Service is kube-proxy's then, and is asked about alone, ever more seldom.
 */
import { families, type Family } from '../../lib/address/address.ts';
import { backOff } from '../../lib/control/backoff.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { findRelayNeeds } from '../decide/relay.ts';
import { renderPort } from '../decide/render-port.ts';
import { printReplacement } from '../table/print-table.ts';
import { createSkeleton } from '../table/skeleton.ts';
import { emptyTable } from '../../lib/netfilter/nftables/ruleset.ts';
import { mergeTables } from '../table/table.ts';
import { type Balances, type Comparison, type Programmer } from './programmer.ts';
import { type PortBalance } from '../decide/balanced-service.ts';

/** What it needs of the world. */
export interface WritePorts {
  readonly clock: Clock;
  readonly kernel: Pick<BalancerKernel, 'check'>;
  /** Called before each question: all of them together may take longer than tables count by themselves. May reject. */
  readonly keepAlive: () => Promise<void>;
}

/** A Service that is not in the tables. */
interface Refusal {
  readonly reason: string;
  /** What is wanted. */
  readonly balances: Balances;
  readonly failures: number;
  readonly dueAt: number;
}

/** A Service is tried again so soon, and then ever more seldom. */
const [firstRetryMs, maxRetryMs] = [2000, 120_000];

/** So many are tried at once: each takes a start of nft. */
const maxRetries = 8;

/** Questions after one refusal. Whoever is not known to be well then is set aside, and tried again alone. */
const maxQuestions = 40;

/** One call at a time. Rejects with what the kernel rejects with where that is no one Service's. */
export class IsolatedWrites {
  readonly #ports: WritePorts;
  readonly #programmer: Programmer;
  readonly #refusals = new Map<string, Refusal>();
  /** Not in the tables any more, and not said yet. */
  #gone = new Map<string, Balances>();

  constructor(ports: WritePorts, programmer: Programmer) {
    this.#ports = ports;
    this.#programmer = programmer;
  }

  /** The Services that are refused, to why: a sentence. They are not in the tables. */
  get refused(): ReadonlyMap<string, string> {
    return new Map([...this.#refusals].map(([service, { reason }]) => [service, reason]));
  }

  /** Whether a Service is refused. */
  isRefused(service: string): boolean {
    return this.#refusals.has(service);
  }

  /** In how long one of them is to be tried again. */
  get dueMs(): number {
    const due = [...this.#refusals.values()].map(({ dueAt }) => dueAt - this.#ports.clock.now());
    return Math.max(0, Math.min(Infinity, ...due));
  }

  /** Takes how some Services are to be balanced from now on. Answers how those are that the tables have changed for. */
  async update(changes: ReadonlyMap<string, Balances>): Promise<ReadonlyMap<string, Balances>> {
    const wanted = new Map<string, Balances>();
    for (const [service, balances] of changes) {
      const refusal = this.#refusals.get(service);
      if (refusal === undefined) wanted.set(service, balances);
      else if (balances.length === 0) this.#refusals.delete(service);
      else this.#refusals.set(service, { ...refusal, balances });
    }
    const retried = await this.#retry();
    for (const [service, balances] of retried) wanted.set(service, balances);
    if (wanted.size > 0) await this.#isolate(wanted, () => this.#programmer.update(wanted));
    const gone = this.#takeGone();
    for (const service of retried.keys()) if (!gone.has(service)) this.#refusals.delete(service);
    return new Map([...wanted, ...gone]);
  }

  /** Compares the tables. Answers what differed, and the Services that were found not to be taken. */
  async compare(): Promise<Comparison & { readonly gone: ReadonlyMap<string, Balances> }> {
    let comparison: Comparison = { drifted: [] };
    await this.#isolate(new Map(), async () => {
      comparison = await this.#programmer.compare();
    });
    return { ...comparison, gone: this.#takeGone() };
  }

  /** Those that nft takes now. */
  async #retry(): Promise<Map<string, Balances>> {
    const now = this.#ports.clock.now();
    const due = [...this.#refusals].filter(([, { dueAt }]) => dueAt <= now).slice(0, maxRetries);
    const taken = new Map<string, Balances>();
    for (const [service, { balances }] of due) {
      const reason = await this.#ask([balances]);
      if (reason === null) taken.set(service, balances);
      else this.#refuse(service, balances, reason);
    }
    return taken;
  }

  #takeGone(): ReadonlyMap<string, Balances> {
    const gone = this.#gone;
    this.#gone = new Map();
    return gone;
  }

  async #isolate(changes: ReadonlyMap<string, Balances>, write: () => Promise<unknown>): Promise<void> {
    try {
      await write();
    } catch (error) {
      if (error instanceof VipnatError && error.code !== 'TOOL_FAILED') throw error;
      const culprits = await this.#findCulprits(changes);
      if (culprits.size === 0) throw error;
      const wanted = new Map([...this.#programmer.balances, ...changes]);
      for (const [service, reason] of culprits) {
        this.#refuse(service, wanted.get(service) ?? [], reason);
        this.#gone.set(service, []);
      }
      await this.#programmer.update(this.#gone);
    }
  }

  #refuse(service: string, balances: Balances, reason: string): void {
    const failures = (this.#refusals.get(service)?.failures ?? 0) + 1;
    const dueAt = this.#ports.clock.now() + backOff(failures - 1, firstRetryMs, maxRetryMs);
    this.#refusals.set(service, { reason, balances, failures, dueAt });
  }

  /** The Services that nft does not take, to why. None where it takes no table at all, or each Service: then it is the tables as they are. */
  async #findCulprits(changes: ReadonlyMap<string, Balances>): Promise<Map<string, string>> {
    const services = new Map([...this.#programmer.balances, ...changes]);
    const used = families.filter((family) =>
      [...services.values()].flat().some((one) => one.family === family),
    );
    const bare = await this.#listBare(used);
    if (bare.size === used.length) return new Map();
    // Of a family of which nft takes no table: the other one's Services are not to wait for that.
    if (bare.size > 0) return findUsers(services, bare);
    const search = new Search((balances) => this.#ask(balances));
    const changed = [...changes].filter(([, balances]) => balances.length > 0);
    await search.look(changed);
    const others = [...this.#programmer.balances].filter(([service]) => !changes.has(service));
    if (search.found.size === 0) await search.look(others);
    return search.found;
  }

  /** The families of which nft refuses a table without any Service, to why. */
  async #listBare(used: readonly Family[]): Promise<Map<Family, string>> {
    const bare = new Map<Family, string>();
    for (const family of used) {
      const reason = await this.#question(printReplacement(family, createSkeleton(family, 'no relays')));
      if (reason !== null) bare.set(family, reason);
    }
    return bare;
  }

  async #question(script: string): Promise<string | null> {
    await this.#ports.keepAlive();
    return await this.#ports.kernel.check(script);
  }

  /** Why nft would refuse tables of these Services alone; null where it would take them. */
  async #ask(services: readonly Balances[]): Promise<string | null> {
    let script: string;
    try {
      script = families.map((family) => printAlone(family, services.flat())).join('');
    } catch (error) {
      return (error as Error).message;
    }
    return await this.#question(script);
  }
}

/** The Services that have a port of one of these families, to why. */
function findUsers(
  services: ReadonlyMap<string, Balances>,
  familyToReason: ReadonlyMap<Family, string>,
): Map<string, string> {
  return new Map(
    [...services].flatMap(([service, balances]) => {
      const reason = balances
        .map(({ family }) => familyToReason.get(family))
        .find((one) => one !== undefined);
      return reason === undefined ? [] : [[service, reason] as const];
    }),
  );
}

type Entry = readonly [service: string, balances: Balances];

/** By halves. */
class Search {
  readonly found = new Map<string, string>();
  readonly #ask: (services: readonly Balances[]) => Promise<string | null>;
  #left = maxQuestions;

  constructor(ask: (services: readonly Balances[]) => Promise<string | null>) {
    this.#ask = ask;
  }

  async look(entries: readonly Entry[]): Promise<void> {
    if (entries.length === 0) return;
    const reason = await this.#question(entries);
    if (reason === null) return;
    if (entries.length === 1 || this.#left <= 0) {
      for (const [service] of entries) this.found.set(service, reason);
      return;
    }
    const middle = entries.length >> 1;
    await this.look(entries.slice(0, middle));
    await this.look(entries.slice(middle));
  }

  async #question(entries: readonly Entry[]): Promise<string | null> {
    if (this.#left <= 0)
      return `nft refuses one of ${entries.length} Services, and vipnat has not found which one yet`;
    this.#left -= 1;
    return await this.#ask(entries.map(([, balances]) => balances));
  }
}

/** A script that makes the table of a family anew, with these alone. */
function printAlone(family: Family, balances: readonly PortBalance[]): string {
  const own = balances.filter((balance) => balance.family === family);
  if (own.length === 0) return '';
  const needs = findRelayNeeds(own.flatMap(({ relay }) => (relay === null ? [] : [relay])));
  const parts = own.map((balance) => renderPort(balance, emptyTable));
  return printReplacement(family, mergeTables([createSkeleton(family, needs), ...parts]));
}

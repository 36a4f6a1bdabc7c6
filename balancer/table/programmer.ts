import { type Clock, backOff } from '../../lib/clock.ts';
import type { BalancerKernel } from '../../lib/kernel/kernel.ts';
import { VipnatError, findErrorCode } from '../../lib/errors.ts';
import { families, type Family } from '../../lib/net.ts';
import {
  printReplacement,
  createSkeleton,
  mergeTables,
  shared,
  printRenewal,
  type TableChange,
  diffTables,
  type RelayNeeds,
  readTable,
  printRemoval,
  type TableStep,
  printStep,
} from './table.ts';
import type { PortBalance, Relay, Balances } from '../services/backends.ts';
import { renderPort } from './render.ts';
import { emptyTable, type NftTable } from '../../lib/nft/table.ts';
import { nameTable, tableName } from '../../lib/api/balancer.ts';

interface WritePorts {
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

/** So many are tried at the same time: each takes a start of nft. */
const maxRetries = 8;

/** Questions after one refusal. Whoever is not known to be well then is set aside, and tried again alone. */
const maxQuestions = 40;

/**
 * Writes Services so that one that nft or the kernel refuses keeps no other.
 * One call at a time. Rejects with what the kernel rejects with where that is no one Service's.
 *
 * Goal: all others are programmed, and the log, the metric and the node's report name the one that is not.
 * Tension: one transaction for all is what keeps packets from seeing half of a change, and a refusal of it names nobody.
 * Compromise: only after a refusal nft is asked about halves of the Services, without effect, until it is known who it was: twice as often
 * as the number of Services has binary digits. That Service is kube-proxy's then, and is asked about alone, ever more seldom.
 */
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
  async compare(): Promise<{ drifted: readonly Family[]; gone: ReadonlyMap<string, Balances> }> {
    let drifted: readonly Family[] = [];
    await this.#isolate(new Map(), async () => (drifted = await this.#programmer.compare()));
    return { drifted, gone: this.#takeGone() };
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

  async #isolate(
    changes: ReadonlyMap<string, Balances>,
    write: () => Promise<unknown>,
    areNew = [...changes.keys()].every((service) => !this.#programmer.balances.has(service)),
  ): Promise<void> {
    try {
      await write();
    } catch (error) {
      const isLate = areNew && changes.size > 1 && findErrorCode(error) === 'TOOL_TIMED_OUT';
      if (isLate) await this.#divide([...changes]);
      else await this.#setAside(changes, error);
    }
  }

  async #setAside(changes: ReadonlyMap<string, Balances>, error: unknown): Promise<void> {
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

  /** Services that are in no table yet, and that nft does not write in time: in halves. */
  async #divide(changes: readonly Entry[]): Promise<void> {
    const middle = changes.length >> 1;
    const [first, second] = [changes.slice(0, middle), changes.slice(middle)];
    const withheld = second.map(([service]): Entry => [service, []]);
    await this.#ports.keepAlive();
    await this.#isolate(
      new Map(first),
      () => this.#programmer.update(new Map([...first, ...withheld])),
      true,
    );
    await this.#isolate(new Map(second), () => this.#programmer.update(new Map(second)), true);
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
    const search = { found: new Map<string, string>(), left: maxQuestions };
    const changed = [...changes].filter(([, balances]) => balances.length > 0);
    await this.#bisect(changed, search);
    const others = [...this.#programmer.balances].filter(([service]) => !changes.has(service));
    if (search.found.size === 0) await this.#bisect(others, search);
    return search.found;
  }

  async #bisect(entries: readonly Entry[], search: Search): Promise<void> {
    if (entries.length === 0) return;
    const isLast = search.left <= 0;
    search.left -= 1;
    const reason = isLast
      ? `nft refuses one of ${entries.length} Services, and vipnat has not found which one yet`
      : await this.#ask(entries.map(([, balances]) => balances));
    if (reason === null) return;
    if (entries.length === 1 || search.left <= 0) {
      for (const [service] of entries) search.found.set(service, reason);
      return;
    }
    const middle = entries.length >> 1;
    await this.#bisect(entries.slice(0, middle), search);
    await this.#bisect(entries.slice(middle), search);
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
function findUsers(services: ReadonlyMap<string, Balances>, familyToReason: ReadonlyMap<Family, string>) {
  return new Map(
    [...services].flatMap(([service, balances]) => {
      const [reason] = balances.flatMap(({ family }) => familyToReason.get(family) ?? []);
      return reason === undefined ? [] : [[service, reason] as const];
    }),
  );
}

type Entry = readonly [service: string, balances: Balances];

/** The Services that were found, to why, and how many questions are left. */
interface Search {
  readonly found: Map<string, string>;
  left: number;
}

/** A script that makes the table of a family again, with these alone. */
function printAlone(family: Family, balances: readonly PortBalance[]): string {
  const own = balances.filter((balance) => balance.family === family);
  if (own.length === 0) return '';
  const needs = findRelayNeeds(own.flatMap(({ relay }) => (relay === null ? [] : [relay])));
  const parts = own.map((balance) => renderPort(balance, emptyTable));
  return printReplacement(family, mergeTables([createSkeleton(family, needs), ...parts]));
}

/** The sets that all Services share. */
const sharedSets: ReadonlySet<string> = new Set(Object.values(shared));

/**
 * Keeps the tables of both families as the Services want them.
 * One call at a time. All methods reject with what the kernel rejects with: then `compare` is to be called.
 *
 * Goal: a change of one Service costs what that Service costs, and no packet is lost.
 * Tension: listing a large table takes a second, and the kernel does not report what other software has done to it.
 * Compromise: what was written last is known, and the difference is one transaction: without a tool where only elements change. The table
 * is listed at the start, after a failure, when it is not the one that vipnat wrote, and when it is to be compared.
 */
export class Programmer {
  readonly #kernel: BalancerKernel;
  readonly #serviceToBalances = new Map<string, Balances>();
  /** How Services are to be balanced. */
  readonly balances: ReadonlyMap<string, Balances> = this.#serviceToBalances;
  readonly #parts: Readonly<Record<Family, Map<string, NftTable>>> = { ipv4: new Map(), ipv6: new Map() };
  /** The Services that are sent on to other nodes, and how. */
  readonly #relayed: Readonly<Record<Family, Map<string, readonly Relay[]>>> = {
    ipv4: new Map(),
    ipv6: new Map(),
  };
  /** The ports of Services that tables had which a life before this one wrote, as these name them: as many as they had. */
  readonly #found = new Set<string>();
  #handles: Readonly<Record<Family, number | null>> = { ipv4: null, ipv6: null };
  #hasWritten = false;
  #isKnown = false;

  constructor(kernel: BalancerKernel) {
    this.#kernel = kernel;
  }

  /** Whether the tables are known to be as they were written; a `compare` brings that about. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** The ports of Services that a life before this one had in its tables, `ADDRESS . PROTOCOL . PORT`: but those of some addresses. */
  listFound(except: ReadonlySet<string>): ReadonlySet<string> {
    return new Set([...this.#found].filter((port) => !except.has(port.split(' ', 1)[0] ?? '')));
  }

  /** How many elements the sets and maps of all Services have, in both tables. */
  get elementCount(): number {
    const sets = families.flatMap((family) =>
      [...this.#parts[family].values()].flatMap((part) => [...part.sets.values()]),
    );
    return sets.reduce((sum, { elements }) => sum + elements.size, 0);
  }

  /** Takes how some Services are to be balanced from now on: nothing for one that is not any more. Without a list of the table where it is known. */
  async update(changes: ReadonlyMap<string, Balances>): Promise<void> {
    const before = families.map((family) => this.#describeSkeleton(family));
    for (const [service, balances] of changes) {
      if (balances.length === 0) this.#serviceToBalances.delete(service);
      else this.#serviceToBalances.set(service, balances);
    }
    const wasKnown = this.#isKnown;
    // Where one Service cannot be rendered, the parts of the other Services are ahead of the tables.
    this.#isKnown = false;
    const tables = families.map((family) => this.#changeParts(family, changes));
    this.#isKnown = wasKnown;
    const isOther = families.some((family, at) => before[at] !== this.#describeSkeleton(family));
    if (!this.#isKnown || isOther || tables.includes(null)) {
      await this.compare();
      return;
    }
    const known = tables.filter((change) => change !== null);
    for (const part of ['now', 'later'] as const) await this.#takeStep(known.map((change) => change[part]));
  }

  /** Lists the tables and writes what differs. Answers the families whose table was not as it was written. */
  async compare(): Promise<readonly Family[]> {
    const wasKnown = this.#isKnown;
    this.#isKnown = false;
    const texts = await Promise.all(families.map((family) => this.#kernel.listTable(nameTable(family))));
    const scripts = families.map((family, at) => this.#converge(family, texts[at] ?? ''));
    const used = families.filter((family) => this.#parts[family].size > 0);
    const isRenewed = scripts.some(({ now }) => now !== '');
    await this.#apply([...scripts, ...(isRenewed ? [{ now: printRenewal(used), later: '' }] : [])]);
    this.#handles = await this.#kernel.readHandles(tableName);
    [this.#isKnown, this.#hasWritten] = [true, true];
    return wasKnown ? families.filter((_, at) => scripts[at]?.now !== '') : [];
  }

  /** Whether the tables are still those that were written. */
  async areOwn(): Promise<boolean> {
    const handles = await this.#kernel.readHandles(tableName);
    const areSame = families.every((family) => handles[family] === this.#handles[family]);
    if (!areSame) this.#isKnown = false;
    return areSame;
  }

  /** Has the rules count for another 30 s. Also those of a former life, while nothing is known yet. */
  async renew(): Promise<void> {
    const there = this.#isKnown ? this.#handles : await this.#kernel.readHandles(tableName);
    const used = families.filter((family) => there[family] !== null);
    if (used.length === 0) return;
    await this.#guard(this.#kernel.apply(printRenewal(used)));
  }

  /** Null where the tables have to be compared. */
  #changeParts(family: Family, changes: ReadonlyMap<string, Balances>): TableChange | null {
    const parts = this.#parts[family];
    const services = [...changes.keys()];
    const seen = mergeTables(services.map((service) => parts.get(service) ?? emptyTable));
    for (const service of services) this.#render(family, service, parts.get(service) ?? emptyTable);
    const wanted = mergeTables(services.map((service) => parts.get(service) ?? emptyTable));
    return diffTables({ family, seen, wanted }, sharedSets);
  }

  /** What all Services share follows from this. */
  #describeSkeleton(family: Family): 'none' | RelayNeeds {
    return this.#parts[family].size === 0 ? 'none' : this.#findRelayNeeds(family);
  }

  #findRelayNeeds(family: Family): RelayNeeds {
    return findRelayNeeds([...this.#relayed[family].values()].flat());
  }

  #render(family: Family, service: string, before: NftTable): void {
    const balances = (this.#serviceToBalances.get(service) ?? []).filter((one) => one.family === family);
    const relays = balances.flatMap(({ relay }) => (relay === null ? [] : [relay]));
    if (relays.length > 0) this.#relayed[family].set(service, relays);
    else this.#relayed[family].delete(service);
    if (balances.length === 0) this.#parts[family].delete(service);
    else
      this.#parts[family].set(service, mergeTables(balances.map((balance) => renderPort(balance, before))));
  }

  /** What makes the table that was listed the wanted one. Slots stay as they are there. */
  #converge(family: Family, text: string): Script {
    const seen = readTable(text, family);
    if (!this.#hasWritten) this.#noteFound(seen ?? emptyTable);
    const parts = this.#parts[family];
    for (const service of this.#serviceToBalances.keys()) this.#render(family, service, seen ?? emptyTable);
    if (parts.size === 0) return { now: text === '' ? '' : printRemoval(family), later: '' };
    const wanted = mergeTables([createSkeleton(family, this.#findRelayNeeds(family)), ...parts.values()]);
    const change = seen === null ? null : diffTables({ family, seen, wanted });
    if (change === null) return { now: printReplacement(family, wanted), later: '' };
    return { now: printStep(change.now), later: printStep(change.later) };
  }

  #noteFound({ sets }: NftTable): void {
    for (const port of sets.get(shared.vips)?.elements.keys() ?? []) this.#found.add(port);
  }

  /** One transaction for both families. */
  async #takeStep(steps: readonly TableStep[]): Promise<void> {
    const isOfElements = steps.every(({ before, after }) => before.length === 0 && after.length === 0);
    const elements = steps.flatMap((step) => step.elements);
    if (isOfElements && elements.length === 0) return;
    if (isOfElements && (await this.#kernel.changeElements(elements))) return;
    await this.#guard(this.#kernel.apply(steps.map(printStep).join('')));
  }

  async #apply(scripts: readonly Script[]): Promise<void> {
    for (const part of ['now', 'later'] as const) {
      const script = scripts.map((one) => one[part]).join('');
      if (script !== '') await this.#guard(this.#kernel.apply(script));
    }
  }

  /** Whatever a tool did that failed or was killed: nobody knows. */
  async #guard(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#isKnown = false;
      throw error;
    }
  }
}

/** Of two transactions, each empty or with a newline at its end. */
type Script = Readonly<Record<'now' | 'later', string>>;

/** What the table has for all of them together. kube-proxy's virtual servers are there where it has an interface of its own. */
export function findRelayNeeds(relays: readonly Relay[]): RelayNeeds {
  if (relays.length === 0) return 'no relays';
  return relays.some(({ uplinks }) => uplinks !== undefined) ? 'relays past IPVS' : 'relays';
}

/**
 * Keeps the tables of both families as the Services want them.
 *
 * Goal: a change of one Service costs what that Service costs, and no packet is lost on its way.
 * Tension: listing a large table takes a second, and what others have done to it is not told.
 * Compromise: what was written last is known, and the difference is one transaction: without a tool where only elements change. The table is listed at the start, after a
 * failure, when it is another one than ours, and when it is to be compared.
 */
import { families, type Family } from '../../lib/address/address.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { findRelayNeeds, type Relay } from '../decide/relay.ts';
import { renderPort } from '../decide/render-port.ts';
import { diffTables, type TableChange, type TableStep } from '../table/diff-tables.ts';
import { printRemoval, printRenewal, printReplacement, printStep } from '../table/print-table.ts';
import { createSkeleton, type RelayNeeds, shared } from '../table/skeleton.ts';
import { type NftTable, emptyTable } from '../../lib/netfilter/nftables/ruleset.ts';
import { mergeTables, readTable } from '../table/table.ts';
import { nameTable, tableName } from '../../lib/services/balancer-table.ts';
import { type PortBalance } from '../decide/balanced-service.ts';

/** The balances of one Service, of both families. */
export type Balances = readonly PortBalance[];

/** What became of a comparison. */
export interface Comparison {
  /** The families whose table was not as it was written. */
  readonly drifted: readonly Family[];
}

type Handles = Readonly<Record<Family, number | null>>;

/** The sets that all Services share. */
const sharedSets: ReadonlySet<string> = new Set(Object.values(shared));

/** One call at a time. All methods reject with what the kernel rejects with: then `compare` is to be called. */
export class Programmer {
  readonly #kernel: BalancerKernel;
  readonly #serviceToBalances = new Map<string, Balances>();
  readonly #parts: Readonly<Record<Family, Map<string, NftTable>>> = { ipv4: new Map(), ipv6: new Map() };
  /** The Services that are sent on to other nodes, and how. */
  readonly #relayed: Readonly<Record<Family, Map<string, readonly Relay[]>>> = {
    ipv4: new Map(),
    ipv6: new Map(),
  };
  /** The ports of Services that tables had which a life before this one wrote, as these name them: as many as they had. */
  readonly #found = new Set<string>();
  #handles: Handles = { ipv4: null, ipv6: null };
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

  /** How Services are to be balanced. */
  get balances(): ReadonlyMap<string, Balances> {
    return this.#serviceToBalances;
  }

  /** Takes how some Services are to be balanced from now on: nothing for one that is not any more. Without a list of the table where it is known. */
  async update(changes: ReadonlyMap<string, Balances>): Promise<void> {
    const before = families.map((family) => this.#describeSkeleton(family));
    for (const [service, balances] of changes) {
      if (balances.length === 0) this.#serviceToBalances.delete(service);
      else this.#serviceToBalances.set(service, balances);
    }
    const tables = this.#changeTables(changes);
    const isOther = families.some((family, at) => before[at] !== this.#describeSkeleton(family));
    if (!this.#isKnown || isOther || tables.includes(null)) {
      await this.compare();
      return;
    }
    const known = tables.filter((change) => change !== null);
    for (const part of ['now', 'later'] as const) await this.#takeStep(known.map((change) => change[part]));
  }

  /** Lists the tables and writes what differs. */
  async compare(): Promise<Comparison> {
    const wasKnown = this.#isKnown;
    this.#isKnown = false;
    const texts = await Promise.all(families.map((family) => this.#kernel.listTable(nameTable(family))));
    const scripts = families.map((family, at) => this.#converge(family, texts[at] ?? ''));
    const used = families.filter((family) => this.#parts[family].size > 0);
    const isRenewed = scripts.some(({ now }) => now !== '');
    await this.#apply([...scripts, ...(isRenewed ? [{ now: printRenewal(used), later: '' }] : [])]);
    this.#handles = await this.#kernel.readHandles(tableName);
    [this.#isKnown, this.#hasWritten] = [true, true];
    return { drifted: wasKnown ? families.filter((_, at) => scripts[at]?.now !== '') : [] };
  }

  /** Whether the tables are still those that were written. */
  async areOurs(): Promise<boolean> {
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

  /** Where one Service cannot be rendered, the parts of others are ahead of the tables. */
  #changeTables(changes: ReadonlyMap<string, Balances>): (TableChange | null)[] {
    const wasKnown = this.#isKnown;
    this.#isKnown = false;
    const tables = families.map((family) => this.#changeParts(family, changes));
    this.#isKnown = wasKnown;
    return tables;
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
    if (this.#parts[family].size === 0) return 'none';
    return this.#findRelayNeeds(family);
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
    return { now: print(change.now), later: print(change.later) };
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
    await this.#guard(this.#kernel.apply(steps.map(print).join('')));
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
interface Script {
  readonly now: string;
  readonly later: string;
}

function print(step: TableStep): string {
  return printStep(step)
    .map((command) => `${command}\n`)
    .join('');
}

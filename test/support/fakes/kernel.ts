import {
  type FlowSelection,
  type Kernel,
  type Transaction,
  type ForwardChain,
  type UnreadRules,
  type Forwarding,
  type KernelQuery,
  type KernelReading,
  toolName,
  type Trigger,
  type Watch,
  type IptablesDialect,
  nameOwnTable,
  type NftProxyOutput,
} from '../../../lib/kernel/port.ts';
import { type Endpoint, formatEndpoint, type Family, families } from '../../../lib/net.ts';
import { FakeAddresses } from './kernel-addresses.ts';
import { FakeFaults } from './kernel-faults.ts';
import { type Clock, systemClock } from '../../../lib/clock.ts';
import { FakeWatches } from './kernel-watches.ts';
import { type FakeTables, copyTables, type FakeTable, tableNames } from '../xtables/tables.ts';
import { FakeNft, NftRefusal } from './nft.ts';
import { readRules } from './kernel-reads.ts';
import { runRestore } from '../xtables/restore.ts';
import { toolFailed } from '../../../lib/kernel/tools.ts';
import { selectServiceObjects } from './nft-proxy.ts';
import { findBreaches } from './protocol.ts';
import type { TableName } from '../../../lib/iptables/rules.ts';

class FakeFlows {
  #flows: FlowSelection[] = [];

  add(flow: FlowSelection): void {
    this.#flows.push(flow);
  }

  delete({ vip, backend, isHalfOpen }: FlowSelection): number {
    const kept = this.#flows.filter(
      (flow) => !isSame(flow.vip, vip) || !isSame(flow.backend, backend) || (isHalfOpen && !flow.isHalfOpen),
    );
    const deleted = this.#flows.length - kept.length;
    this.#flows = kept;
    return deleted;
  }

  count(vip: Endpoint): Map<string, number> {
    const counts = new Map<string, number>();
    for (const flow of this.#flows.filter((one) => !one.isHalfOpen && isSame(one.vip, vip))) {
      const backend = formatEndpoint(flow.backend);
      counts.set(backend, (counts.get(backend) ?? 0) + 1);
    }
    return counts;
  }
}

function isSame(one: Endpoint, other: Endpoint): boolean {
  return formatEndpoint(one) === formatEndpoint(other);
}

/**
 * A kernel in memory that behaves as the real one does through its tools: test/contract runs the same suite on
 * both. It also holds the product to its promises: an apply that breaks one rejects with a plain Error, and is
 * noted in `breaches` for products that swallow errors.
 */
export class FakeKernel extends FakeAddresses implements Kernel {
  readonly faults: FakeFaults;
  /** Every transaction that was handed in, in order, also those that failed. */
  readonly applied: Transaction[] = [];
  /** Every reset of connections that was asked for, in order. */
  readonly resets: FlowSelection[] = [];
  readonly breaches: string[] = [];
  reads = 0;
  hasIptables = true;
  /** The interfaces that would heed no router advertisement any more. */
  advertised: readonly string[] = [];
  /** nftables' chains of others for what is forwarded. */
  forwardChains: readonly ForwardChain[] = [];
  generation = 1;
  readonly #clock: Clock;
  protected override readonly watches: FakeWatches;
  readonly #tables = new Map<string, FakeTables>();
  readonly #nft = new FakeNft();
  readonly #readSinceWrite = new Set<string>();
  #unread: readonly UnreadRules[] = [];
  readonly #nftProxies = new Map<Family, readonly unknown[]>();
  readonly #flows = new FakeFlows();
  #ipvs: string | null = null;
  readonly #printOwnRules = () =>
    printOwnRules((family) => [this.#tablesOf(family, 'nft').get('nat'), this.showNft(family)]);
  #ownRules = this.#printOwnRules();
  #forwarding: Forwarding = { ipv4: true, ipv6: true };

  /** Empty, as a new network namespace is; triggers come by the given clock. */
  constructor(clock: Clock = systemClock) {
    super();
    this.#clock = clock;
    this.watches = new FakeWatches(clock);
    this.faults = new FakeFaults(clock);
  }

  async read(query: KernelQuery): Promise<KernelReading> {
    await this.faults.meet('netlink');
    const rules = await readRules(this, query);
    if (rules.unread.length === 0) this.reads += 1;
    this.#unread = rules.unread;
    for (const { family, dialect } of rules.iptables) this.#readSinceWrite.add(`${family} ${dialect}`);
    for (const { family } of rules.nftTables) this.#readSinceWrite.add(`${family} nftables`);
    const { forwarding, closedDevices, advertised } = this;
    return {
      ...rules,
      addresses: this.addresses.map(({ family, address, device }) => ({ family, address, device })),
      ...{ forwarding, closedDevices, advertised },
      ipvs: this.#ipvs,
    };
  }

  async apply(transaction: Transaction): Promise<void> {
    const { family, dialect } = transaction;
    this.#assertPromisesKept(transaction);
    this.applied.push(transaction);
    this.use(transaction);
    await this.faults.meet(toolName(family, dialect, 'restore'));
    this.faults.runBeforeApply(transaction);
    this.write(transaction);
  }

  /** Writes at once, whatever the promises say. */
  write({ family, dialect, input }: Transaction): void {
    if (dialect === 'nftables') this.runNft(input);
    else this.run(family, dialect, input);
  }

  async resetFlows(selection: FlowSelection): Promise<number> {
    await this.faults.meet('connections');
    this.resets.push(selection);
    return this.#flows.delete(selection);
  }

  async countFlows(vip: Endpoint): Promise<ReadonlyMap<string, number>> {
    await this.faults.meet('connections');
    return this.#flows.count(vip);
  }

  async listForwardChains(): Promise<readonly ForwardChain[]> {
    await this.faults.meet('nft');
    return this.forwardChains;
  }

  async enableForwarding(family: Family, device?: string): Promise<void> {
    await this.faults.meet('sysctl');
    this.closedDevices = device === undefined ? [] : this.closedDevices.filter((one) => one !== device);
    this.#forwarding = { ...this.#forwarding, [family]: true };
  }

  watch(onTrigger: (trigger: Trigger) => void): Watch {
    return this.watches.open(onTrigger);
  }

  get forwarding(): Forwarding {
    return this.#forwarding;
  }

  /** What a stranger does with sysctl. */
  set forwarding(forwarding: Forwarding) {
    this.#forwarding = forwarding;
    this.watches.trigger('forwarding');
  }

  /** Another kernel that holds the same; without its watches, its faults, and what was read and written so far. */
  copy(): FakeKernel {
    const copy = new FakeKernel(this.#clock);
    for (const [source, tables] of this.#tables) copy.#tables.set(source, copyTables(tables));
    for (const [family, objects] of this.#nftProxies) copy.#nftProxies.set(family, objects);
    copy.#nft.become(this.#nft);
    copy.becomeAddresses(this);
    copy.#ipvs = this.#ipvs;
    return copy;
  }

  /** What a stranger does: runs a restore script. Throws TOOL_FAILED when the tool would fail. */
  run(family: Family, dialect: IptablesDialect, script: string): void {
    const { changedTables, refusal } = runRestore(this.#tablesOf(family, dialect), {
      family,
      dialect,
      script,
    });
    if (dialect === 'legacy') this.watches.trigger('xtables-lock');
    else this.#commit(changedTables);
    if (refusal === null) return;
    const tool = toolName(family, dialect, 'restore');
    const stderr = `${tool}: ${refusal.message}`;
    throw toolFailed({ tool, exitCode: refusal.exitCode, stderr, input: script });
  }

  /** What a stranger does with `nft -f -`. Throws TOOL_FAILED when nft would fail. */
  runNft(script: string): void {
    try {
      this.#nft.run(script);
    } catch (error) {
      if (!(error instanceof NftRefusal)) throw error;
      throw toolFailed({ tool: 'nft', exitCode: 1, stderr: `Error: ${error.message}`, input: script });
    }
    this.#commit(1);
  }

  /** What `nft -n -t list table` would print of our own table now. */
  showNft(family: Family): string {
    return this.#nft.list(nameOwnTable(family));
  }

  /** What `nft -j list` would tell of the nftables proxy's service; null without its table. */
  showNftProxy(family: Family, serviceChain: string): NftProxyOutput | null {
    const objects = this.#nftProxies.get(family);
    return objects === undefined ? null : { family, objects: selectServiceObjects(objects, serviceChain) };
  }

  /** What the save tool would print now; no read, as far as the promises go. */
  show(family: Family, dialect: IptablesDialect): string {
    return printTables(this.#tablesOf(family, dialect), { family, dialect, date: this.#clock.date() });
  }

  trackFlow(flow: FlowSelection): void {
    this.#flows.add(flow);
  }

  /** Sets /proc/net/ip_vs; null is a kernel without IPVS. */
  setIpvs(text: string | null): void {
    this.#ipvs = text;
    this.watches.trigger('ipvs');
  }

  /** Sets the table `kube-proxy`, as the `nftables` array of `nft -j list table`; null removes it. */
  setNftProxy(family: Family, objects: readonly unknown[] | null): void {
    if (objects === null) this.#nftProxies.delete(family);
    else this.#nftProxies.set(family, objects);
    this.#commit(1);
  }

  /** Calls every watch back although nothing happened, as the lock does when somebody only looks. */
  trigger(trigger: Trigger): void {
    this.watches.trigger(trigger);
  }

  #commit(transactions: number): void {
    this.generation += transactions;
    const before = this.#ownRules;
    this.#ownRules = this.#printOwnRules();
    if (transactions > 0) this.watches.trigger(before === this.#ownRules ? 'nft-generation' : 'own-rules');
  }

  #assertPromisesKept(transaction: Transaction): void {
    const source = `${transaction.family} ${transaction.dialect}`;
    const isBlind = !this.#readSinceWrite.delete(source);
    const breaches = [
      ...(isBlind ? [`writes ${source} without having read it since the last write (I1)`] : []),
      ...this.#unread
        .filter(({ family, dialect }) => `${family} ${dialect}` === source)
        .flatMap(({ tables }) => tables)
        .filter((table) => transaction.input.includes(`*${table}\n`))
        .map((table) => `writes ${table} of ${source} without having been able to read it (I1)`),
      ...findBreaches(transaction),
    ];
    if (breaches.length === 0) return;
    this.breaches.push(...breaches);
    throw new Error(`vipnat broke its promises: ${breaches.join('; ')}\n${transaction.input}`);
  }

  #tablesOf(family: Family, dialect: IptablesDialect): FakeTables {
    const key = `${family} ${dialect}`;
    const tables = this.#tables.get(key) ?? (new Map() as FakeTables);
    this.#tables.set(key, tables);
    return tables;
  }
}

/** The rules that a watch tells from all others, see lib/kernel/watch.ts: a text to compare. */
function printOwnRules(read: (family: Family) => readonly [FakeTable | undefined, string]): string {
  const rules = families.map(read).map(([nat, own]) => [
    ['VIPNAT', 'PREROUTING', 'OUTPUT'].map((name) => nat?.get(name)?.rules ?? []),
    // Chains and their hooks are no rules.
    own.match(/^\t\t(?!type ).*$/gm),
  ]);
  return JSON.stringify(rules);
}

interface SaveRequest {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly date: Date;
}

/** What `ip[6]tables-{nft,legacy}-save` 1.8.9 prints: nothing without tables; counters are always 0. */
function printTables(tables: FakeTables, { family, dialect, date }: SaveRequest): string {
  const tool = family === 'ipv6' ? 'ip6tables' : 'iptables';
  const header = dialect === 'nft' ? `${tool}-nft-save v1.8.9 (nf_tables)` : `${tool}-save v1.8.9`;
  const when = date.toUTCString();
  return inPrintOrder(tables, dialect)
    .map(
      ([name, table]) =>
        `# Generated by ${header} on ${when}\n*${name}\n${printTable(table)}COMMIT\n# Completed on ${when}\n`,
    )
    .join('');
}

/** iptables-nft has an order of its own; the kernel lists legacy tables newest first. */
function inPrintOrder(tables: FakeTables, dialect: IptablesDialect): [TableName, FakeTable][] {
  if (dialect === 'legacy') return [...tables].reverse();
  return [...tables].sort(([a], [b]) => tableNames.indexOf(a) - tableNames.indexOf(b));
}

/** The kernel's own chains first, the others by name. */
function printTable(table: FakeTable): string {
  const chains = [...table];
  const own = chains.filter(([, { policy }]) => policy !== null);
  const others = chains.filter(([, { policy }]) => policy === null).sort(([a], [b]) => (a < b ? -1 : 1));
  const ordered = [...own, ...others];
  const declarations = ordered.map(([name, { policy }]) => `:${name} ${policy ?? '-'} [0:0]\n`);
  const rules = ordered.flatMap(([name, chain]) => chain.rules.map((rule) => `-A ${name} ${rule}\n`));
  return [...declarations, ...rules].join('');
}

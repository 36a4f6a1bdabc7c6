import { type ErrorCode, VipnatError } from '../../../lib/errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Transaction } from '../../../lib/kernel/port.ts';
import { toolTimedOut } from '../../../lib/kernel/tools.ts';

interface Fault {
  /** `iptables-nft-restore`, `nft`, `netlink` and so on; the next call of any tool when absent. */
  readonly tool?: string;
  readonly code: ErrorCode;
}

interface SpoiltTable {
  readonly table: string;
  readonly how: 'failing' | 'incompatible';
}

/** After how long a hanging tool is given up. */
const hangLimitMs = 10_000;

/** What goes wrong in a FakeKernel. A fault is used up by the call that meets it. */
export class FakeFaults {
  readonly #clock: Clock;
  #faults: Fault[] = [];
  readonly #toolToDelay = new Map<string, number>();
  readonly #toolToLasting = new Map<string, number>();
  readonly #toolToGarbage = new Map<string, string>();
  readonly #toolToSpoilt = new Map<string, SpoiltTable>();
  readonly #beforeApply: ((transaction: Transaction) => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The next call of the tool fails with this code; called twice, the next two do. */
  failNext(fault: Fault): void {
    this.#faults.push(fault);
  }

  /** The next call of the tool gives no answer for 10 s of the clock, then fails with TOOL_TIMED_OUT. */
  hangNext(tool?: string): void {
    this.#faults.push({ ...(tool === undefined ? {} : { tool }), code: 'TOOL_TIMED_OUT' });
  }

  delayNext(tool: string, delayMs: number): void {
    this.#toolToDelay.set(tool, delayMs);
  }

  delayEvery(tool: string, delayMs: number): void {
    this.#toolToLasting.set(tool, delayMs);
  }

  /** From now on the save tool meets a rule in this table that it cannot show: it fails for it, or leaves the table out. */
  spoilTable(tool: string, table: string, how: SpoiltTable['how'] = 'failing'): void {
    this.#toolToSpoilt.set(tool, { table, how });
  }

  printNext(tool: string, garbage: string): void {
    this.#toolToGarbage.set(tool, garbage);
  }

  /** Runs once, between the product's decision and its next write: the place for a stranger's race. */
  beforeApply(race: (transaction: Transaction) => void): void {
    this.#beforeApply.push(race);
  }

  /** What comes of calling a tool now: used by FakeKernel. */
  async meet(tool: string): Promise<void> {
    const fault = this.#faults.find((candidate) => candidate.tool === undefined || candidate.tool === tool);
    await Promise.resolve();
    const delayMs = this.#toolToDelay.get(tool) ?? this.#toolToLasting.get(tool);
    if (delayMs !== undefined) {
      this.#toolToDelay.delete(tool);
      await new Promise<void>((resolve) => this.#clock.schedule(delayMs, resolve));
    }
    if (fault === undefined) return;
    this.#faults = this.#faults.filter((other) => other !== fault);
    if (fault.code === 'TOOL_TIMED_OUT') {
      await new Promise<void>((resolve) => this.#clock.schedule(hangLimitMs, resolve));
      throw toolTimedOut(tool, hangLimitMs);
    }
    throw new VipnatError(fault.code, `${tool} failed as the test asked`);
  }

  /** The table that a save tool fails for, if any: used by FakeKernel. */
  findSpoilt(tool: string): SpoiltTable | null {
    return this.#toolToSpoilt.get(tool) ?? null;
  }

  /** What the tool prints instead, if anything: used by FakeKernel. */
  takeGarbage(tool: string): string | null {
    const garbage = this.#toolToGarbage.get(tool) ?? null;
    this.#toolToGarbage.delete(tool);
    return garbage;
  }

  runBeforeApply(transaction: Transaction): void {
    for (const race of this.#beforeApply.splice(0)) race(transaction);
  }
}

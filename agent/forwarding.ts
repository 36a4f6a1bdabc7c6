/**
 * Whether this host passes on what it balances.
 *
 * Goal: a connection that is sent to another node gets there.
 * Tension: a host that does not forward drops it, and then two of three connections hang that would have been
 * answered without us; and where forwarding may be switched on is not ours to know everywhere (`--sysctls check`).
 * Compromise: switched on before the first rule, and again whenever somebody has switched it off; where that fails, is
 * not wanted or has to be done too often (I9), the VIP is left to its holder.
 */
import { type Family, families } from '../lib/address/address.ts';
import { VipnatError } from '../lib/errors.ts';
import { forwardingCommand, forwardingSwitch } from '../lib/kernel/forwarding.ts';
import { type Kernel } from '../lib/kernel/port.ts';
import { type Config } from './config/config.ts';
import { type Memory } from './memory.ts';
import { type Observation } from './observe.ts';
import { type WriteBudget } from './write-budget.ts';

/** What has to be switched on, as sysctl takes it. */
export interface MissingSwitch {
  readonly family: Family;
  readonly name: string;
  /** What switches it on, as a command for a shell: no default route goes by it. */
  readonly command: string;
  /** The interfaces that have to heed router advertisements all the same. */
  readonly advertised: readonly string[];
  /** Whether it is ours to switch on (`--sysctls set`). */
  readonly isOurs: boolean;
}

/** Who is told of what became of switching. */
export interface ForwardingReport {
  /** It was off, and is on. */
  switchedOn(missing: MissingSwitch): void;
  /** It is off again, and stays so for this long: somebody switches it off all the time. */
  contested(missing: MissingSwitch, waitMs: number): void;
  /** It is off and stays so. */
  notSwitched(problem: VipnatError): void;
}

/** The switches that are off on this host, of families that have a VIP. */
export function findMissingSwitches(
  { forwarding, advertised }: Pick<Observation, 'forwarding' | 'advertised'>,
  { vips, sysctls }: Pick<Config, 'vips' | 'sysctls'>,
): MissingSwitch[] {
  return families
    .filter((family) => forwarding[family] === false && vips.some((vip) => vip.family === family))
    .map((family) => ({
      family,
      name: forwardingSwitch(family),
      command: forwardingCommand(family, advertised),
      advertised: family === 'ipv6' ? advertised : [],
      isOurs: sysctls === 'set',
    }));
}

/** What switching needs. */
export interface SwitchingPorts {
  readonly kernel: Pick<Kernel, 'enableForwarding'>;
  readonly report: ForwardingReport;
  readonly budget: Pick<WriteBudget, 'waitToSwitch' | 'noteSwitch'>;
}

/**
 * Switches on what is off, where that is wanted. Answers the memory to look again with, or null when the look that
 * found it still holds. Never rejects.
 */
export async function switchOnForwarding(
  ports: SwitchingPorts,
  missing: readonly MissingSwitch[],
  memory: Memory,
  { sysctls }: Pick<Config, 'sysctls'>,
): Promise<Memory | null> {
  if (sysctls === 'check') return null;
  const unforwardable = new Set<Family>();
  for (const one of missing) {
    if (!(await switchOn(ports, one))) unforwardable.add(one.family);
  }
  const isAllOff = unforwardable.size === missing.length;
  const isKnown = families.every((family) => unforwardable.has(family) === memory.unforwardable.has(family));
  return isAllOff && isKnown ? null : { ...memory, unforwardable };
}

/** Answers whether it is on now. */
async function switchOn(
  { kernel, report, budget }: SwitchingPorts,
  missing: MissingSwitch,
): Promise<boolean> {
  const waitMs = budget.waitToSwitch(missing.family);
  if (waitMs > 0) {
    report.contested(missing, waitMs);
    return false;
  }
  try {
    await kernel.enableForwarding(missing.family);
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    report.notSwitched(error);
    return false;
  }
  budget.noteSwitch(missing.family);
  report.switchedOn(missing);
  return true;
}

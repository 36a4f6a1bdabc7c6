import { type Family, families } from '../../lib/address/address.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Config } from '../../config/config.ts';
import { type MissingSwitch } from '../decide/missing-switches.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { type ForwardingListener } from '../report/loop-observer.ts';
import { type WriteBudget } from './write-budget.ts';

/** What switching needs. */
export interface SwitchingPorts {
  readonly kernel: Pick<Kernel, 'enableForwarding'>;
  readonly report: ForwardingListener;
  readonly budget: Pick<WriteBudget, 'waitToSwitch' | 'noteSwitch'>;
}

/**
 * Switches on what is off, where that is wanted. Answers the memory to look again with, or null when the look that
 * found it still holds. Never rejects.
 */
export async function switchOnForwarding(
  ports: SwitchingPorts,
  missing: readonly MissingSwitch[],
  memory: ReconcileState,
  { sysctls }: Pick<Config, 'sysctls'>,
): Promise<ReconcileState | null> {
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
    await kernel.enableForwarding(missing.family, missing.device);
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    report.notSwitched(error);
    return false;
  }
  budget.noteSwitch(missing.family);
  report.switchedOn(missing);
  return true;
}

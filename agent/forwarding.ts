import type { Kernel, LocalRoutes } from '../lib/kernel/port.ts';
import type { ForwardingListener } from './report/events.ts';
import type { MissingSwitch, ReconcileState } from './decide/decision.ts';
import type { Config } from '../config/options.ts';
import { type Family, families, type Endpoint, isInSubnet } from '../lib/net.ts';
import { VipnatError } from '../lib/errors.ts';
import type { Observation } from './observe/observe.ts';
import { forwardingSwitch, forwardingCommand } from '../lib/kernel/forwarding.ts';

interface SwitchingPorts {
  readonly kernel: Pick<Kernel, 'enableForwarding'>;
  readonly report: ForwardingListener;
  /** How long to wait before a family may be switched on again (0 is now), and what counts that it was. */
  readonly budget: { waitToSwitch(family: Family): number; noteSwitch(family: Family): void };
}

/** Switches on what is off. Answers memory for another reading; null if the sync holds. Never rejects. */
export async function switchOnForwarding(
  ports: SwitchingPorts,
  missing: readonly MissingSwitch[],
  memory: ReconcileState,
  { sysctls }: Pick<Config, 'sysctls'>,
): Promise<ReconcileState | null> {
  if (sysctls === 'check') return null;
  const unforwardable = new Set<Family>();
  for (const one of missing) if (!(await switchOn(ports, one))) unforwardable.add(one.family);
  const isAllOff = unforwardable.size === missing.length;
  const isKnown = families.every((family) => unforwardable.has(family) === memory.unforwardable.has(family));
  return isAllOff && isKnown ? null : { ...memory, unforwardable };
}

/** Answers whether it is on now. */
async function switchOn({ kernel, report, budget }: SwitchingPorts, missing: MissingSwitch) {
  const waitMs = budget.waitToSwitch(missing.family);
  if (waitMs > 0) {
    report.conflict(missing, waitMs);
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

/**
 * Whether this host passes on what it balances.
 *
 * Goal: a connection that is sent to another node gets there.
 * Tension: while IP forwarding is off, the host drops it, and then two of three connections hang that would have been
 * answered without vipnat; and not every host leaves the switch to vipnat (`--sysctls check`).
 * Compromise: switched on before the first rule, and again whenever somebody has switched it off; where that fails, is
 * not wanted or has to be done too often (I9), the mode is passthrough.
 */

/**
 * The switches that are off on this host, of families that have a VIP. Where the host forwards, an interface that has the VIP, or
 * its subnet, may have its own switch off: what clients send comes by that one. Pure.
 */
export function findMissingSwitches(
  observation: Pick<Observation, 'forwarding' | 'advertised'> & Partial<Observation>,
  { vips, sysctls }: Pick<Config, 'vips' | 'sysctls'>,
  localRoutes: Pick<LocalRoutes, 'addresses'> | null = null,
): MissingSwitch[] {
  const { forwarding, advertised, closedDevices = [] } = observation;
  const addresses = localRoutes?.addresses ?? [];
  const closed = closedDevices.filter((device) => vips.some((vip) => isVipDevice(device, vip, addresses)));
  const toSwitch = (family: Family, device?: string): MissingSwitch => ({
    family,
    name: forwardingSwitch(family, device),
    command: forwardingCommand(family, advertised, device),
    advertised: family === 'ipv6' ? advertised : [],
    ...(device === undefined ? {} : { device }),
    isOwn: sysctls === 'set',
  });
  const off = families.filter((family) => forwarding[family] === false);
  const ofHost = off.filter((family) => vips.some((vip) => vip.family === family));
  return [...ofHost.map((family) => toSwitch(family)), ...closed.map((device) => toSwitch('ipv4', device))];
}

/** The interface that has the VIP; where it is elsewhere, one in its subnet, by which it would come. */
function isVipDevice(device: string, vip: Endpoint, addresses: LocalRoutes['addresses']): boolean {
  const vipHolder = addresses.find(({ address }) => address === vip.address);
  if (vipHolder !== undefined) return vipHolder.device === device;
  return addresses.some(
    (one) => one.device === device && one.family === vip.family && isInSubnet(vip.address, one),
  );
}

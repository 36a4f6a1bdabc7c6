/**
 * Whether this host passes on what it balances.
 *
 * Goal: a connection that is sent to another node gets there.
 * Tension: a host that does not forward drops it, and then two of three connections hang that would have been
 * answered without us; and where forwarding may be switched on is not ours to know everywhere (`--sysctls check`).
 * Compromise: switched on before the first rule, and again whenever somebody has switched it off; where that fails, is
 * not wanted or has to be done too often (I9), the VIP is left to its holder.
 */
import { type Family, families } from '../../lib/address/address.ts';
import { forwardingCommand, forwardingSwitch } from '../../lib/kernel/host/forwarding.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { isInSubnet } from '../../lib/address/subnet.ts';
import { type LocalRoutes } from '../../lib/kernel/port.ts';
import { type Config } from '../../config/config.ts';
import { type Observation } from '../observe/observe.ts';

/** What has to be switched on, as sysctl takes it. */
export interface MissingSwitch {
  readonly family: Family;
  readonly name: string;
  /** What switches it on, as a command for a shell: no route and no address goes by it. */
  readonly command: string;
  /** The interfaces that have to heed router advertisements all the same. */
  readonly advertised: readonly string[];
  /** The interface whose own switch it is; left out where it is the host's. */
  readonly device?: string;
  /** Whether it is ours to switch on (`--sysctls set`). */
  readonly isOurs: boolean;
}

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
  const ofDevices = closed.map((device): MissingSwitch => ({
    family: 'ipv4',
    name: forwardingSwitch('ipv4', device),
    command: forwardingCommand('ipv4', [], device),
    advertised: [],
    device,
    isOurs: sysctls === 'set',
  }));
  return [...listHostSwitches({ forwarding, advertised }, { vips, sysctls }), ...ofDevices];
}

/** The interface that has the VIP; where it is elsewhere, one in its subnet, by which it would come. */
function isVipDevice(device: string, vip: Endpoint, addresses: LocalRoutes['addresses']): boolean {
  const holder = addresses.find(({ address }) => address === vip.address);
  if (holder !== undefined) return holder.device === device;
  return addresses.some(
    (one) => one.device === device && one.family === vip.family && isInSubnet(vip.address, one),
  );
}

function listHostSwitches(
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

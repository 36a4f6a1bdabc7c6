import {
  type DeviceOptions,
  readDescription,
  invalid,
  readCredentials,
  type DeviceDescription,
} from './files.ts';
import type { Environment } from '../../config/load.ts';
import { configurations, loadDriver, loadFunction } from '../../devices/drivers.ts';
import {
  type DriverContext,
  type DeviceSettings,
  type LoadBalancerDriver,
  type DeviceState,
  isBehind,
} from '../../devices/driver.ts';
import { VipnatError } from '../../lib/errors.ts';
import {
  type Sites,
  type TargetActions,
  describeError,
  documentationSites,
} from '../../devices/conformance/bench.ts';
import {
  type AddressRange,
  mergeRanges,
  type Family,
  type Address,
  countOfFamily,
  getNth,
} from '../../lib/net.ts';

/**
 * `vipnat device configuration`: a shell script that configures a unit. It has no password. Asks the device nothing.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function configure(options: DeviceOptions, environment: Environment): Promise<string> {
  const { name, driver, cluster, units, addresses, options: own } = await readDescription(options.device);
  const word = options.driver ?? driver ?? '';
  const load = Object.hasOwn(configurations, word) ? configurations[word] : undefined;
  if (load === undefined)
    throw invalid(
      `vipnat has no configuration for the driver ${JSON.stringify(word)}. It has one for ${Object.keys(configurations).join(', ')}`,
    );
  if (options.unit === null && units.length > 1)
    throw invalid(`${name} has two units, and each has files of its own. Example: --unit 1`);
  const secrets = await readCredentials(options.credentials, environment);
  const print = await load();
  return print({ name, cluster, units, options: own, ...secrets }, addresses, (options.unit ?? 1) - 1);
}

/** A device that can be asked. */
export interface OpenDevice {
  readonly description: DeviceDescription;
  /** The name or the path of its driver. */
  readonly driver: string;
  /** With its secrets. */
  readonly settings: DeviceSettings;
  /** Makes a driver for a cluster; for that of the description unless another is given. Nobody but the controller knows the identity of that. */
  readonly open: (context: DriverContext, cluster?: string, identity?: string) => LoadBalancerDriver;
}

/**
 * Reads all that the command line names. Asks the device nothing yet.
 * @throws VipnatError DEVICE_SETTINGS_INVALID or DRIVER_NOT_LOADED
 */
export async function openDevice(options: DeviceOptions, environment: Environment): Promise<OpenDevice> {
  const description = await readDescription(options.device);
  const secrets = await readCredentials(options.credentials, environment);
  const driver = options.driver ?? description.driver;
  if (driver === null)
    throw invalid(`${options.device} names no spec.driver. Example: --driver ./driver.mjs`);
  const create = await loadDriver(driver);
  const { name, cluster, units, options: own } = description;
  const settings = { name, cluster, units, options: own, ...secrets };
  return {
    ...{ description, driver, settings },
    open: (context, ofCluster = cluster, identity) => {
      try {
        return create({ ...settings, cluster: ofCluster, identity }, context);
      } catch (error) {
        if (error instanceof VipnatError) throw error;
        throw invalid(`the driver does not take the settings of ${name}: ${describeError(error)}`);
      }
    },
  };
}

/**
 * What a module does to the device: what its `createActions(settings)` answers.
 * @throws VipnatError DRIVER_NOT_LOADED
 */
export async function loadActions(path: string, settings: DeviceSettings): Promise<TargetActions> {
  return Object(await loadFunction(path, 'createActions').call(settings)) as TargetActions;
}

/** Whether a person should see to it: not one unit is active, another is behind, or changes of other users wait. */
export function isStateInTrouble({ units, foreignChanges }: DeviceState): boolean {
  const active = units.filter(({ role }) => role === 'active');
  return active.length !== 1 || units.some(isBehind) || foreignChanges.length > 0;
}

/** As many as the check with the most of them has, and those that change at the same time. */
const most = 30n;

/** Fewer would leave checks without an address of their own. */
const least = 5;

/**
 * Where the suite may put balancers: at the addresses that the device has for Services, or at those for documentation.
 * @throws VipnatError DEVICE_SETTINGS_INVALID where it has too few
 */
export function chooseSites(addresses: readonly AddressRange[], ports: readonly number[] | null): Sites {
  const sites = { ...documentationSites, ...(ports === null ? {} : { ports }) };
  if (addresses.length === 0) return sites;
  const ranges = mergeRanges(addresses);
  const [ipv4, ipv6] = [take(ranges, 'ipv4'), take(ranges, 'ipv6')];
  if (ipv4.length < least)
    throw invalid(`spec.addresses has ${ipv4.length} addresses of IPv4. The suite needs at least ${least}`);
  return { ...sites, ipv4, ipv6 };
}

function take(ranges: readonly AddressRange[], family: Family): Address[] {
  const count = countOfFamily(ranges, family);
  return Array.from({ length: Number(count < most ? count : most) }, (_, at) =>
    getNth(ranges, family, BigInt(at)),
  );
}

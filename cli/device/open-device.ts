import { type Environment } from '../../config/environment.ts';
import { describeError } from '../../lib/devices/conformance/subject.ts';
import {
  type CreateDriver,
  type DeviceSettings,
  type DriverContext,
  type LoadBalancerDriver,
} from '../../lib/devices/driver.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type DeviceOptions } from './flags.ts';
import { loadDriver } from './load-driver.ts';
import { readCredentials } from './read-credentials.ts';
import { type DeviceDescription, readDescription } from './read-description.ts';
import { invalid } from './read-yaml.ts';

/** A device that can be asked. */
export interface OpenDevice {
  readonly description: DeviceDescription;
  /** The name or the path of its driver. */
  readonly driver: string;
  /** Makes a driver for a cluster; for that of the description unless another is given. */
  readonly open: (context: DriverContext, cluster?: string) => LoadBalancerDriver;
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
  return {
    description,
    driver,
    open: (context, ofCluster = cluster) =>
      createIt(create, { name, cluster: ofCluster, units, options: own, ...secrets }, context),
  };
}

function createIt(
  create: CreateDriver,
  settings: DeviceSettings,
  context: DriverContext,
): LoadBalancerDriver {
  try {
    return create(settings, context);
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    throw invalid(`the driver does not take the settings of ${settings.name}: ${describeError(error)}`);
  }
}

import { type Environment } from '../../config/environment.ts';
import { configurations } from '../../lib/devices/drivers.ts';
import { type DeviceOptions } from './flags.ts';
import { readCredentials } from './read-credentials.ts';
import { readDescription } from './read-description.ts';
import { invalid } from './read-yaml.ts';

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

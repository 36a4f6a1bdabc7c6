import {
  type DeviceOptions,
  readDescription,
  invalid,
  readCredentials,
  type DeviceDescription,
} from './files.ts';
import type { Environment } from '../../config/load.ts';
import { configurations, drivers } from '../../devices/drivers.ts';
import {
  type DriverContext,
  type LoadBalancerDriver,
  type CreateDriver,
  type DeviceState,
  isBehind,
} from '../../devices/driver.ts';
import { VipnatError } from '../../lib/errors.ts';
import { type Sites, describeError, documentationSites } from '../../devices/conformance/bench.ts';
import { pathToFileURL } from 'node:url';
import { suggest } from '../../lib/text.ts';
import { quoteText } from '../../config/options.ts';
import { resolve } from 'node:path';
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
  return {
    description,
    driver,
    open: (context, ofCluster = cluster, identity) => {
      try {
        return create({ name, cluster: ofCluster, identity, units, options: own, ...secrets }, context);
      } catch (error) {
        if (error instanceof VipnatError) throw error;
        throw invalid(`the driver does not take the settings of ${name}: ${describeError(error)}`);
      }
    },
  };
}

/** Whether a person should see to it: not one unit is active, another is behind, or changes of other users wait. */
export function isStateInTrouble({ units, foreignChanges }: DeviceState): boolean {
  const active = units.filter(({ role }) => role === 'active');
  return active.length !== 1 || units.some(isBehind) || foreignChanges.length > 0;
}

/**
 * Loads a driver of vipnat by its name, or a module by its path: what has a `/` or ends as modules do.
 * @throws VipnatError DRIVER_NOT_LOADED
 */
export async function loadDriver(word: string): Promise<CreateDriver> {
  if (/\/|\.[cm]?[jt]s$/.test(word)) return loadModule(word);
  const load = Object.hasOwn(drivers, word) ? drivers[word] : undefined;
  if (load !== undefined) return await load();
  const names = Object.keys(drivers);
  const hint = suggest(word, names, `Drivers: ${[...names, './MODULE.mjs'].join(', ')}`);
  throw notLoaded(`${quoteText(word)} is not a driver of vipnat. ${hint}`);
}

/**
 * By Node's own require, which a single executable has not: its require knows Node's modules alone. It takes ES modules, too, unless they
 * wait at their top level.
 */
function loadModule(path: string): CreateDriver {
  const file = resolve(path);
  let found: unknown;
  try {
    found = process.getBuiltinModule('node:module').createRequire(file)(file);
  } catch (error) {
    const { message = String(error) } = Object(error) as { readonly message?: string };
    const [line = ''] = message.split('\n');
    throw notLoaded(`the driver ${path} cannot be loaded: ${line}`, error);
  }
  const { createDriver } = Object(found) as { readonly createDriver?: unknown };
  if (typeof createDriver !== 'function')
    throw notLoaded(`the driver ${path} exports no function createDriver: docs/drivers.md has an example`);
  let first: CreateDriver | null = createDriver as CreateDriver;
  return (settings, context) => {
    const create = first ?? loadAgain(file);
    first = null;
    return checkDriver(create(settings, context), path);
  };
}

let loads = 0;

/** A module with variables of its own, as those of a process that has just begun. What it imports is shared. */
function loadAgain(file: string): CreateDriver {
  const { createRequire, registerHooks } = process.getBuiltinModule('node:module');
  const requireHere = createRequire(file);
  Reflect.deleteProperty(requireHere.cache, file);
  const { href } = pathToFileURL(file);
  const name = `${href}.${(loads += 1)}.mjs`;
  const source = `import * as all from ${JSON.stringify(`${href}?${loads}`)};
    export const createDriver = all.createDriver ?? all.default.createDriver;`;
  // Node 24 takes no query in require, and an import would not be over when a driver is needed.
  const hooks = registerHooks({
    resolve: (word, context, next) =>
      word === name ? { url: name, format: 'module', shortCircuit: true } : next(word, context),
    load: (url, context, next) =>
      url === name ? { source, format: 'module', shortCircuit: true } : next(url, context),
  });
  try {
    return (requireHere(name) as { readonly createDriver: CreateDriver }).createDriver;
  } finally {
    hooks.deregister();
  }
}

const methods = ['list', 'plan', 'ensure', 'remove', 'readState'] as const;

/** Nobody has checked the types of a module from elsewhere. */
function checkDriver(driver: LoadBalancerDriver, path: string): LoadBalancerDriver {
  const parts = Object(driver) as Readonly<Record<string, unknown>>;
  const missing = methods.filter((name) => typeof parts[name] !== 'function');
  if (missing.length > 0)
    throw notLoaded(`the driver ${path} lacks ${missing.join(', ')}: docs/drivers.md has an example`);
  const { methods: known } = Object(parts['capabilities']) as { readonly methods?: unknown };
  if (Array.isArray(known) && known.length > 0) return driver;
  throw notLoaded(`the driver ${path} has no capabilities.methods: docs/drivers.md has an example`);
}

function notLoaded(message: string, cause?: unknown): VipnatError {
  return new VipnatError('DRIVER_NOT_LOADED', message, { cause });
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

/** The drivers that vipnat has. Each is loaded when a device asks for it. */
import type { CreateDriver, DeviceSettings, LoadBalancerDriver } from './driver.ts';
import { VipnatError } from '../lib/errors.ts';
import { suggest } from '../lib/text.ts';
import { parseDriverModule, shippedDrivers } from '../lib/api/device.ts';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { AddressRange } from '../lib/net.ts';

/** By the names that `spec.driver` of a LoadBalancerDevice has. */
const drivers: Readonly<Record<(typeof shippedDrivers)[number], () => Promise<CreateDriver>>> = {
  alteon: async () => (await import('./alteon/driver.ts')).createAlteon,
  haproxy: async () => (await import('./haproxy/driver.ts')).createHaproxy,
};

/** Prints a shell script that configures a unit, 0 or 1, with these addresses for Services. Throws VipnatError DEVICE_SETTINGS_INVALID. */
type PrintConfiguration = (
  settings: DeviceSettings,
  addresses: readonly AddressRange[],
  at: number,
) => string;

/** By drivers whose units vipnat can configure. */
export const configurations: Readonly<Record<string, () => Promise<PrintConfiguration>>> = {
  haproxy: async () => {
    const { configureUnit, formatInstaller } = await import('./haproxy/configuration.ts');
    return (settings, addresses, at) => formatInstaller(configureUnit(settings, addresses, at));
  },
};

/**
 * Loads a driver of vipnat by its name, or a module by its path: what has a `/` or ends as modules do. `modules` are those of `--driver`, each
 * as `NAME=PATH`: their names count, too.
 * @throws VipnatError DRIVER_NOT_LOADED
 */
export async function loadDriver(name: string, modules: readonly string[] = []): Promise<CreateDriver> {
  const word = modules.map(parseDriverModule).find((each) => each?.name === name)?.path ?? name;
  if (/\/|\.[cm]?[jt]s$/.test(word)) return loadModule(word);
  const shipped = shippedDrivers.find((each) => each === word);
  if (shipped !== undefined) return await drivers[shipped]();
  const hint = suggest(
    word,
    shippedDrivers,
    `Drivers: ${shippedDrivers.join(', ')}, or a module by --driver`,
  );
  throw notLoaded(`${JSON.stringify(word)} is not a driver of vipnat. ${hint}`);
}

/**
 * What a module exports by this name, by Node's own require, which a single executable has not: its require knows Node's modules alone. It
 * takes ES modules, too, unless they wait at their top level.
 * @throws VipnatError DRIVER_NOT_LOADED
 */
export function loadFunction(
  path: string,
  name: string,
): { file: string; call: (...given: unknown[]) => unknown } {
  let file = resolve(path);
  let found: unknown;
  try {
    const requireHere = process.getBuiltinModule('node:module').createRequire(file);
    // A link and a folder have another name.
    file = requireHere.resolve(file);
    found = requireHere(file);
  } catch (error) {
    const { message = String(error), code } = Object(error) as Partial<NodeJS.ErrnoException>;
    const [line = ''] =
      code === 'ERR_REQUIRE_ASYNC_MODULE' ? ['it has a top-level await'] : message.split('\n');
    throw notLoaded(`the module ${path} cannot be loaded: ${line}`, error);
  }
  const { [name]: call } = Object(found) as Readonly<Record<string, unknown>>;
  if (typeof call === 'function') return { file, call: call as (...given: unknown[]) => unknown };
  throw notLoaded(`the module ${path} exports no function ${name}: docs/drivers.md has an example`);
}

function loadModule(path: string): CreateDriver {
  const { file, call } = loadFunction(path, 'createDriver');
  let first: CreateDriver | null = call as CreateDriver;
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

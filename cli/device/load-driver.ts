import { resolve } from 'node:path';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';
import { type CreateDriver, type LoadBalancerDriver } from '../../lib/devices/driver.ts';
import { drivers } from '../../lib/devices/drivers.ts';
import { VipnatError } from '../../lib/text/errors.ts';

/**
 * Loads a driver of vipnat by its name, or a module by its path: what has a `/` or ends as modules do.
 * @throws VipnatError DRIVER_NOT_LOADED
 */
export async function loadDriver(word: string): Promise<CreateDriver> {
  if (/\/|\.[cm]?[jt]s$/.test(word)) return loadModule(word);
  const load = Object.hasOwn(drivers, word) ? drivers[word] : undefined;
  if (load !== undefined) return await load();
  const names = Object.keys(drivers);
  const nearest = findNearest(word, names);
  const hint =
    nearest === null ? `Drivers: ${[...names, './MODULE.mjs'].join(', ')}` : `Did you mean ${nearest}?`;
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
  return (settings, context) => checkDriver((createDriver as CreateDriver)(settings, context), path);
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

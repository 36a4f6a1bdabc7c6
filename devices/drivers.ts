/** The drivers that vipnat has. Each is loaded when a device asks for it. */
import type { CreateDriver, DeviceSettings } from './driver.ts';
import type { AddressRange } from '../lib/net.ts';

/** By the names that `spec.driver` of a LoadBalancerDevice has. */
export const drivers: Readonly<Record<string, () => Promise<CreateDriver>>> = {
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

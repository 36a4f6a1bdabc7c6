import { readdir, readFile, writeFile } from 'node:fs/promises';
import { type Family } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { quoteWords } from '../../text/shell-words.ts';
import { describeAccepting, listAdvertised, toAcceptPath } from './advertised-routes.ts';
import { type Forwarding, type LocalAddress } from '../port.ts';

/** The kernel's switches for passing on packets of other hosts. Source: Documentation/networking/ip-sysctl.rst of Linux. */
const switches: Readonly<Record<Family, string>> = {
  ipv4: 'net.ipv4.ip_forward',
  ipv6: 'net.ipv6.conf.all.forwarding',
};

/** In IPv4 each interface has a switch of its own, which the one for all only sets. */
const interfacesFolder = '/proc/sys/net/ipv4/conf';
const noInterface: readonly string[] = ['all', 'default', 'lo'];

/** The name of a family's switch, or of one interface's own, as sysctl takes it: a dot in an interface's name is a slash there. */
export function forwardingSwitch(family: Family, device?: string): string {
  return device === undefined
    ? switches[family]
    : `net.${family}.conf.${device.replaceAll('.', '/')}.forwarding`;
}

/** The interfaces of these IPv4 addresses whose own switch is off, sorted. The kernel drops what comes by them and is for others. */
export async function listClosedDevices(
  addresses: readonly Pick<LocalAddress, 'family' | 'device'>[],
): Promise<string[]> {
  const devices = [
    ...new Set(addresses.filter(({ family }) => family === 'ipv4').map(({ device }) => device)),
  ];
  const names = devices.filter((name) => !noInterface.includes(name));
  const values = await Promise.all(names.map((name) => readSwitch(toDevicePath(name))));
  return names.filter((_, at) => values[at] === false).toSorted();
}

/** Whether this network namespace forwards. */
export async function readForwarding(): Promise<Forwarding> {
  const [ipv4, ipv6] = await Promise.all([readSwitch(toPath('ipv4')), readSwitch(toPath('ipv6'))]);
  return { ipv4: ipv4 === false ? await isAnyInterfaceForwarding() : ipv4, ipv6 };
}

/**
 * How to switch a family's forwarding on by hand: a command. Interfaces that heed router advertisements keep heeding them:
 * the host would lose routes at once, and addresses when their time ends.
 */
export function forwardingCommand(family: Family, advertised: readonly string[], device?: string): string {
  const kept = family === 'ipv6' ? advertised.map(describeAccepting) : [];
  return quoteWords(['sysctl', '-w', ...kept, `${forwardingSwitch(family, device)}=1`]);
}

/**
 * Makes it forward a family, and heed router advertisements as before.
 * @throws VipnatError SYSCTL_NOT_WRITTEN
 */
export async function writeForwarding(family: Family, device?: string): Promise<void> {
  const name = forwardingSwitch(family, device);
  const advertised = family === 'ipv6' ? await listAdvertised() : [];
  try {
    for (const device of advertised) await writeAccepting(device);
    await writeFile(device === undefined ? toPath(family) : toDevicePath(device), '1');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new VipnatError(
      'SYSCTL_NOT_WRITTEN',
      `vipnat cannot set ${name} to 1 (${code ?? message}). Connections are not balanced until you run: ${forwardingCommand(family, advertised, device)}`,
      { cause: error },
    );
  }
}

/** An interface may go meanwhile. */
async function writeAccepting(device: string): Promise<void> {
  await writeFile(toAcceptPath(device), '2').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  });
}

async function isAnyInterfaceForwarding(): Promise<boolean> {
  const names = (await readdir(interfacesFolder)).filter((name) => !noInterface.includes(name));
  const found = await Promise.all(names.map((name) => readSwitch(toDevicePath(name))));
  return found.includes(true);
}

/** Null where the kernel lacks it; an interface may go while it is asked. */
async function readSwitch(path: string): Promise<boolean | null> {
  try {
    return (await readFile(path, 'utf8')).trim() !== '0';
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function toDevicePath(device: string): string {
  return `${interfacesFolder}/${device}/forwarding`;
}

function toPath(family: Family): string {
  return `/proc/sys/${forwardingSwitch(family).replaceAll('.', '/')}`;
}

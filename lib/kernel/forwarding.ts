import type { Family } from '../net.ts';
import type { LocalAddress, Forwarding } from './port.ts';
import { describeAccepting, listAdvertised, toAcceptPath } from './routes.ts';
import { quoteWords } from '../text.ts';
import { writeFile, readdir, readFile } from 'node:fs/promises';
import { VipnatError } from '../errors.ts';
import { join, basename } from 'node:path';
import { release } from 'node:os';
import { existsSync } from 'node:fs';
import { withNetlinkClient } from './netlink.ts';
import { dumpTunnels } from './addresses.ts';

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
 * How to switch a family's forwarding on by hand: a command. Interfaces that obey router advertisements keep obeying them:
 * the host would lose routes immediately, and addresses when their time ends.
 */
export function forwardingCommand(family: Family, advertised: readonly string[], device?: string): string {
  const kept = family === 'ipv6' ? advertised.map(describeAccepting) : [];
  return quoteWords(['sysctl', '-w', ...kept, `${forwardingSwitch(family, device)}=1`]);
}

/**
 * Makes it forward a family, and obey router advertisements as before.
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

/**
 * What this process knows of the kernel's forwarding switches: what it saw last, or switched on itself since. So its
 * own write counts as no change, and a foreign one does that takes the write back before anybody has looked.
 */
export class KnownForwarding {
  #known: Forwarding | null = null;
  #changes = 0;

  /** To be called after an own write that switched a family on. */
  noteOn(family: Family): void {
    if (this.#known !== null) this.#known = { ...this.#known, [family]: true };
  }

  /** To be called with what is there now. Answers how many times that was not what was known; the first time does not count. */
  see(now: Forwarding): number {
    const { ipv4, ipv6 } = this.#known ?? now;
    if (ipv4 !== now.ipv4 || ipv6 !== now.ipv6) this.#changes += 1;
    this.#known = now;
    return this.#changes;
  }
}

/** Whether the kernel has a module now, can load it, or has none of that name; `unknown` where nothing tells. */
export type ModuleState = 'here' | 'loadable' | 'absent' | 'unknown';

/** Finds modules by name, with underscores: loaded, built in, or in this kernel's folder. Reads only. */
export async function readModules(names: readonly string[]): Promise<ReadonlyMap<string, ModuleState>> {
  const folder = join('/lib/modules', release());
  const [loaded, builtIn, files] = await Promise.all([
    read('/proc/modules'),
    read(join(folder, 'modules.builtin')),
    read(join(folder, 'modules.dep')),
  ]);
  const here = new Set([...listLoaded(loaded ?? ''), ...listFiles(builtIn ?? '')]);
  const loadable = new Set(listFiles(files ?? ''));
  return new Map(
    names.map((name) => {
      if (here.has(name)) return [name, 'here'];
      if (loadable.has(name)) return [name, 'loadable'];
      // Without the folder a module may be anywhere, or in the kernel itself.
      return [name, files === null ? 'unknown' : 'absent'];
    }),
  );
}

/** `ip_vs_rr 16384 0 - Live 0x0000000000000000` */
function listLoaded(text: string): string[] {
  return [...text.matchAll(/^(\w+) /gm)].map(([, name = '']) => name);
}

/** `kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/…`, and the same without dependencies. */
function listFiles(text: string): string[] {
  return text
    .split('\n')
    .map((line) => basename(line.replace(/:.*/, '')).replace(/\.ko(?:\.\w+)?$/, ''))
    .map((name) => name.replaceAll('-', '_'));
}

async function read(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null);
}

const folder = '/proc/sys/net/netfilter';

/**
 * Transport protocols that the kernel of this network namespace cannot translate: SCTP where it was built without
 * CONFIG_NF_CT_PROTO_SCTP, and none while its connection table is not loaded, which nobody can tell then.
 */
export function listUntranslatedProtocols(): readonly string[] {
  const hasTable = existsSync(`${folder}/nf_conntrack_max`);
  return hasTable && !existsSync(`${folder}/nf_conntrack_sctp_timeout_established`) ? ['SCTP'] : [];
}

/**
 * The tunnels of this host that drop IPv4 packets whose return path is another interface, sorted. Strict is 1 (RFC 3704), and the
 * greater of the interface's value and that for all counts. Source: Documentation/networking/ip-sysctl.rst of Linux. Rejects with NETLINK_FAILED.
 */
export async function listStrictTunnels(): Promise<string[]> {
  const tunnels = await withNetlinkClient('route', dumpTunnels);
  const values = await readSysctls(['all', ...tunnels].map(nameTunnelFilter));
  const value = (device: string) => Number(values.get(nameTunnelFilter(device)) ?? 0);
  return tunnels.filter((device) => Math.max(value('all'), value(device)) === 1);
}

/** The switch of an interface, as sysctl(8) takes it: a dot in the interface's name is a slash there. */
export function nameTunnelFilter(device: string): string {
  return `net.ipv4.conf.${device.replaceAll('.', '/')}.rp_filter`;
}

/** The values of these switches, by their names as sysctl takes them, trimmed. One that this kernel lacks is not in it. */
export async function readSysctls(names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(names.map(async (name) => [name, await readSysctl(name)] as const));
  return new Map(found.flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])));
}

/** The interfaces that have IPv4 switches of their own, `all` and `default` among them. */
export async function listSwitchedInterfaces(): Promise<string[]> {
  return await readdir('/proc/sys/net/ipv4/conf').catch(() => []);
}

/** A dot in an interface's name (`eth0.5`) is a slash in the switch's, as sysctl(8) has it. */
async function readSysctl(name: string): Promise<string | null> {
  const path = name.replaceAll(/[./]/g, (mark) => (mark === '.' ? '/' : '.'));
  return await readFile(`/proc/sys/${path}`, 'utf8').then(
    (text) => text.trim(),
    () => null,
  );
}

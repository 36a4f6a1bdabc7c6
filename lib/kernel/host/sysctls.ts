import { readdir, readFile } from 'node:fs/promises';

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

import { readFile } from 'node:fs/promises';
import { release } from 'node:os';
import { basename, join } from 'node:path';

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

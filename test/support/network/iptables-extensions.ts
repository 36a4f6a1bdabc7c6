import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Makes a folder in another, with all extensions of this machine's iptables but that for one match: an iptables that
 * is told by XTABLES_LIBDIR to look there cannot show rules with it, as after a downgrade. Answers the folder's path.
 */
export function makeExtensionsWithout(match: string, parent: string): string {
  const folder = join(parent, `extensions-without-${match}`);
  mkdirSync(folder, { recursive: true });
  const original = findExtensions(match);
  for (const file of readdirSync(original)) {
    const link = join(folder, file);
    if (file !== `libxt_${match}.so` && !existsSync(link)) symlinkSync(join(original, file), link);
  }
  return folder;
}

/** Distributions have them in `xtables` beside their other libraries. */
function findExtensions(match: string): string {
  const libraries = ['/usr/lib', '/usr/lib64', '/lib'].filter((folder) => existsSync(folder));
  const nested = libraries.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
  const found = [...libraries, ...nested]
    .map((folder) => join(folder, 'xtables'))
    .find((folder) => existsSync(join(folder, `libxt_${match}.so`)));
  if (found === undefined) throw new Error(`iptables has no extension ${match} here`);
  return found;
}

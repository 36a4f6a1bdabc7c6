import { access } from 'node:fs/promises';
import { join } from 'node:path';

/** Where systemd looks for units, see systemd.unit(5). */
const folders = [
  '/etc/systemd/system',
  '/run/systemd/system',
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
];

/** Those of these services that have a unit of systemd on this host, by their names without `.service`. */
export async function listUnits(names: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.all(names.map(async (name) => ((await hasUnit(name)) ? [name] : [])));
  return new Set(found.flat());
}

async function hasUnit(name: string): Promise<boolean> {
  const tries = await Promise.all(
    folders.map((folder) =>
      access(join(folder, `${name}.service`)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return tries.includes(true);
}

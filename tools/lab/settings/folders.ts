import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { homedir } from 'node:os';

const fromHere = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The checkout. */
export const rootFolder = fromHere('../../..');

/** What is built once per version, and kept. */
export const componentFolder = fromHere('../../../.cache/lab/components');

/** The same for all checkouts of this user: a new one need not build again. */
export const sharedComponentFolder = join(
  process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
  'vipnat-lab',
);

/** One folder per lab that is up: its state, certificates, configurations and logs. */
export const labsFolder = fromHere('../../../.cache/lab/labs');

/** The folders of the root that vipnat itself is built from. */
export const productFolders = ['agent', 'balancer', 'cli', 'config', 'controller', 'devices', 'lib'];

import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { readdirSync, readFileSync } from 'node:fs';
import { families } from '../../../lib/net.ts';
import { iptablesDialects, toolName } from '../../../lib/kernel/port.ts';

const kernelFolder = join(rootFolder, 'lib/kernel');

/** How lib/kernel names a program that it starts. */
const namings = /(?:\btool: |\bisInPath\(|\btoolMissing\()'(?<tool>[a-z][a-z-]+)'/g;

/** Started where it is: in a pod it is another container's, and checks its configuration itself. */
export const notInPods: readonly string[] = ['keepalived'];

/** Every program that vipnat starts, by what lib/kernel's sources say. */
export function listStartedTools(): string[] {
  const named = readdirSync(kernelFolder, { recursive: true, withFileTypes: true }).flatMap((entry) => {
    if (!entry.isFile()) return [];
    const source = readFileSync(join(entry.parentPath, entry.name), 'utf8');
    return [...source.matchAll(namings)].map(({ groups }) => groups?.['tool'] ?? '');
  });
  const iptables = families.flatMap((family) =>
    iptablesDialects.flatMap((dialect) =>
      (['save', 'restore'] as const).map((suffix) => toolName(family, dialect, suffix)),
    ),
  );
  return [...new Set([...named, ...iptables])].sort();
}

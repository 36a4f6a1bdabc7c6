import { exitStatuses } from '../../lib/exit-status.ts';
import { printManifest } from '../manifest/print.ts';
import { type ManifestContext } from './command-context.ts';
import { version } from './version.ts';

/** `vipnat manifest`: prints YAML to apply; looks at nothing of this host. */
export function manifest({ config, options, given, stdout }: ManifestContext): number {
  stdout(printManifest({ config, options, given, version }));
  return exitStatuses.done;
}

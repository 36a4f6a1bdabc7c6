#!/usr/bin/env node
import { VipnatError } from '../lib/errors.ts';

/** The oldest Node that works: package.json's `engines` says the same, and a test compares them. */
const oldest = { major: 22, minor: 19 };

/** NODE_TOO_OLD for a version as in process.versions.node that is too old, else null. */
export function refuseOldNode(version: string): VipnatError | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) return null;
  const needed = `${oldest.major}.${oldest.minor}`;
  return new VipnatError(
    'NODE_TOO_OLD',
    `this is Node ${version}, and vipnat needs ${needed} or newer. Install one, or run the container image`,
  );
}

// Before anything else is loaded, by what is imported later: the rest need not work on an older Node.
const refusal = refuseOldNode(process.versions.node);
if (refusal === null) {
  void import('./program.ts').then(({ runProcess }) => runProcess());
} else {
  process.stderr.write(`vipnat: [${refusal.code}] ${refusal.message}\n`);
  process.exitCode = refusal.exitCode;
}

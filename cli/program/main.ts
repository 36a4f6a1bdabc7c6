#!/usr/bin/env node
import { refuseOldNode } from './node-version.ts';

// Before anything else is loaded, by what is imported later: the rest need not work on an older Node.
const refusal = refuseOldNode(process.versions.node);
if (refusal === null) {
  void import('./process.ts').then(({ runProcess }) => runProcess());
} else {
  process.stderr.write(`vipnat: [${refusal.code}] ${refusal.message}\n`);
  process.exitCode = refusal.exitCode;
}

import { isSea } from 'node:sea';

/**
 * The command line that starts vipnat on a host: this executable where it is a single one, else Node.js and the program where
 * docs/install.md has them.
 */
export const ownProgram: readonly string[] = isSea()
  ? [process.execPath]
  : ['/usr/bin/node', '/opt/vipnat/vipnat.js'];

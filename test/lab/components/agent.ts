import { join } from 'node:path';
import { type Family } from '../../../lib/address/address.ts';
import { vips } from '../../network/layout.ts';
import { rootFolder } from '../folders.ts';
import { type Command } from './command.ts';

/** vipnat as built from this checkout. */
export function vipnatCommand(...words: readonly string[]): string[] {
  return [process.execPath, join(rootFolder, 'dist/vipnat.js'), ...words];
}

/** A master's agent. */
export function agentCommand(family: Family): Command {
  return { command: vipnatCommand('run', '--vip', vips[family]) };
}

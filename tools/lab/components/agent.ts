import { join } from 'node:path';
import { rootFolder } from '../settings/folders.ts';
import { type Family, formatEndpoint } from '../../../lib/net.ts';
import type { Certificates } from '../certificates/certificates.ts';
import type { Command } from './command.ts';
import { vips, listApiservers } from '../../../test/support/network/layout.ts';
import type { LabOptions } from '../settings/options.ts';

/** vipnat as built from this checkout. */
export function vipnatCommand(...words: readonly string[]): string[] {
  return [process.execPath, join(rootFolder, 'dist/vipnat.js'), ...words];
}

/** The `--run-dir` of a master: on a disk of its own, as its state is. */
export const runFolder = '/var/lib/vipnat-run';

/** A master's agent, with more arguments where it shall be otherwise. */
export function agentCommand(
  family: Family,
  certificates: Certificates,
  more: readonly string[] = [],
): Command {
  const options = ['--vip', vips[family], '--ca-file', certificates.authority, '--run-dir', runFolder];
  return { command: vipnatCommand('run', ...options, ...more) };
}

/** What an agent of a lab is given when nothing else is said, see `LabOptions.agentArguments`. */
export function defaultAgentArguments({ proxyMode, family }: LabOptions): string[] {
  if (proxyMode !== 'none') return [];
  return ['--endpoints', listApiservers(family).map(formatEndpoint).join(',')];
}

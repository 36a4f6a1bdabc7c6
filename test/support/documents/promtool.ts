import { describe } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isFull } from '../jest/extent.ts';

/** `scripts/setup promtool` puts it there. */
const promtool = resolve('.cache/tools/promtool');

/** Left out by the gate where promtool is not there, and skipped otherwise: in CI a skipped test is a failure. */
export function describeWithPromtool(name: string, declare: () => void): void {
  if (existsSync(promtool)) describe(name, declare);
  else if (isFull) describe.skip(name, declare);
}

export function runPromtool(args: readonly string[], input = ''): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(promtool, args, { encoding: 'utf8', input });
  return { status, output: `${stdout}${stderr}` };
}

import { describe } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/** `scripts/setup promtool` puts it there, which scripts/test does before this layer. */
const promtool = resolve('.cache/tools/promtool');

/** Skipped where promtool is not there: in CI a skipped test is a failure. */
export const describeWithPromtool = existsSync(promtool) ? describe : describe.skip;

/** Runs promtool to its end, with this on its standard input. */
export function runPromtool(args: readonly string[], input = ''): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(promtool, args, { encoding: 'utf8', input });
  return { status, output: `${stdout}${stderr}` };
}

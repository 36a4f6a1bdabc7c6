import { exitStatuses } from '../../lib/exit-status.ts';
import { findForeignDrops } from '../foreign-drops.ts';
import { type CheckContext } from './command-context.ts';
import { formatCheck } from './format/check.ts';
import { formatCheckJson } from './format/check-json.ts';
import { createHostKernel, lookAtHost } from './host.ts';
import { nameNode } from './node-name.ts';

/** `vipnat check`: says how the rules differ from what `run` would have written. Exit `done` in sync, `found` with drift. */
export async function check({ config, options, screen, stdout, stderr }: CheckContext): Promise<number> {
  const assessment = await lookAtHost(config, stderr);
  const drops = findForeignDrops(await createHostKernel().listForwardChains(), assessment);
  const isInSync = assessment.plan.tables.length === 0 && assessment.missingSwitches.length === 0;
  stdout(
    options.json
      ? formatCheckJson(assessment, drops, nameNode(config))
      : formatCheck({ assessment, drops, config }, screen()),
  );
  return isInSync ? exitStatuses.done : exitStatuses.found;
}

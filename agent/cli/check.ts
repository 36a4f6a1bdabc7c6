import { VipnatError } from '../../lib/errors.ts';
import { exitStatuses } from '../../lib/exit-status.ts';
import { type ForwardChain } from '../../lib/kernel/port.ts';
import { quoteWords } from '../../lib/shell-words.ts';
import { type Assessment } from '../assess.ts';
import { toArguments } from '../config/arguments.ts';
import { findForeignDrops } from '../foreign-drops.ts';
import { findAgent } from '../http/presence.ts';
import { describeUnread, type UnreadText } from '../unread.ts';
import { type CheckContext } from './command-context.ts';
import { formatCheck } from './format/check.ts';
import { formatCheckJson } from './format/check-json.ts';
import { createHostKernel, lookAtHost } from './host.ts';
import { nameNode } from './node-name.ts';

/** `vipnat check`: says how the rules differ from what `run` would have written. Exit `done` in sync, `found` with drift. */
export async function check({
  config,
  given,
  options,
  screen,
  stdout,
  stderr,
}: CheckContext): Promise<number> {
  const [assessment, agent] = await Promise.all([lookAtHost(config, stderr), findAgent()]);
  const { drops, problems } = await lookForDrops(assessment);
  const flags = quoteWords(toArguments(config, given));
  const unread = [...describeUnread(assessment.observation.unread), ...problems];
  const isInSync = assessment.plan.tables.length === 0 && assessment.missingSwitches.length === 0;
  stdout(
    options.json
      ? formatCheckJson(assessment, { drops, unread }, nameNode(config))
      : formatCheck({ assessment, drops, unread, config, agent, flags }, screen()),
  );
  return isInSync ? exitStatuses.done : exitStatuses.found;
}

/** The rules are compared all the same where nobody can list others' chains. */
async function lookForDrops(
  assessment: Assessment,
): Promise<{ drops: readonly ForwardChain[]; problems: readonly UnreadText[] }> {
  try {
    const chains = await createHostKernel().listForwardChains();
    return { drops: findForeignDrops(chains, assessment), problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    const text = `not looked for: nftables' chains that drop what is forwarded (${error.message})`;
    return { drops: [], problems: [{ code: error.code, text }] };
  }
}

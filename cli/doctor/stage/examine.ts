import { diagnose, type TopicOutcome } from '../checks/diagnose.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { foresee } from './foresee.ts';
import { listNextSteps, type NextStep } from './next-steps.ts';
import { findStage, type Stage } from './stage.ts';

/** All that doctor has to tell of a host. */
export interface Examination {
  readonly stage: Stage;
  readonly topics: readonly TopicOutcome[];
  /** What to do next, in order; none but before an installation. */
  readonly next: readonly NextStep[];
}

/** Makes every check, and judges what they say by how far this host is. Pure. */
export function examine(facts: HostFacts): Examination {
  const found = diagnose(facts);
  // Without a virtual IP it is only about Services, which are there.
  const stage = facts.config.vips.length === 0 ? 'installed' : findStage(facts);
  if (stage !== 'before-installation') return { stage, topics: found, next: [] };
  const topics = foresee(found, facts);
  return { stage, topics, next: listNextSteps(facts, topics) };
}

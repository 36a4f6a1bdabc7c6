import { type Finding, type Verdict } from './fact.ts';
import { type HostFacts } from './host-facts.ts';

/** One thing that is looked at. */
export interface Check {
  /** What a finding of it is called, for good: in kebab case. */
  readonly code: string;
  /** How bad its findings can be. docs/doctor.md has a row for each check with these and the meaning. */
  readonly levels: readonly Finding['level'][];
  /** When there is a finding, in a sentence or two of Markdown. */
  readonly meaning: string;
  /** Pure; facts that are unknown make it NotChecked, and nothing else fails by them. */
  readonly find: (facts: HostFacts) => Verdict;
}

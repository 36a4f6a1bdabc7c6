import { type Verdict } from './fact.ts';
import { type HostFacts } from './host-facts.ts';

/** One thing that is looked at. */
export interface Check {
  /** What a finding of it is called, for good: in kebab case, with a row in docs/doctor.md. */
  readonly code: string;
  /** Pure; facts that are unknown make it NotChecked, and nothing else fails by them. */
  readonly find: (facts: HostFacts) => Verdict;
}

import { writeReleaseNotes } from '../documents/release-notes.ts';
import { type Release } from '../settings/release.ts';

/** One kind of artifact. */
export interface Step {
  readonly name: string;
  /** What it makes, in a phrase. */
  readonly makes: string;
  /**
   * Makes its files in `output` and answers their names. It replaces those of an earlier run. The same checkout gives the
   * same bytes. Throws ReleaseError where a tool is missing.
   */
  readonly make: (release: Release) => Promise<readonly string[]> | readonly string[];
}

/** All steps, in the order in which they run: later ones may use the files of earlier ones. */
export const steps: readonly Step[] = [
  {
    name: 'notes',
    makes: "RELEASE-NOTES.md, the changelog's section of this version",
    make: writeReleaseNotes,
  },
];

/** The words of the command line. */
export const stepNames = steps.map(({ name }) => name);

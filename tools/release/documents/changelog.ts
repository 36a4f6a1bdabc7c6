import { ReleaseError } from '../settings/error.ts';
import type { Release } from '../settings/release.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { requirePapers } from './papers.ts';

/** What a version changed. */
export interface ChangelogSection {
  /** The heading's words: the version with its date, or Unreleased. */
  readonly heading: string;
  readonly text: string;
}

/**
 * The changelog's section of a version; what is unreleased where it has none yet.
 * @throws ReleaseError when it has neither.
 */
export function readChangelogSection(changelog: string, version: string): ChangelogSection {
  const sections = changelog.split(/^## /m).slice(1);
  const find = (word: string) => sections.find((section) => section.split(/\s/, 1)[0] === word);
  const section = find(version) ?? find('Unreleased');
  if (section === undefined) {
    throw new ReleaseError(`CHANGELOG.md has neither "## ${version}" nor "## Unreleased": add one of them`);
  }
  const [heading = '', ...lines] = section.split('\n');
  return { heading, text: lines.join('\n').trim() };
}

/**
 * Checks what a tag promises.
 * @throws ReleaseError when package.json, the changelog or another document says something else, or the checkout has changes.
 */
export function requireTag(tag: string, release: Release): void {
  const { root, version, revision } = release;
  if (revision.endsWith('-dirty')) {
    throw new ReleaseError(
      'the checkout has changes that no commit has, so it is not what the tag names: git status lists them',
    );
  }
  if (tag !== `v${version}`) {
    throw new ReleaseError(
      `the tag ${tag} does not match version ${version} of package.json: change one of the two`,
    );
  }
  const { heading } = readChangelogSection(readChangelog(root), version);
  if (!heading.startsWith(version)) {
    throw new ReleaseError(
      `CHANGELOG.md has no "## ${version}": rename "## Unreleased" before you set the tag`,
    );
  }
  requirePapers(release);
}

/** CHANGELOG.md of a checkout. */
export function readChangelog(root: string): string {
  return readFileSync(join(root, 'CHANGELOG.md'), 'utf8');
}

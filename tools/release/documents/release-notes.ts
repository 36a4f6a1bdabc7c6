import type { Release } from '../settings/release.ts';
import { readChangelogSection, readChangelog } from './changelog.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const file = 'RELEASE-NOTES.md';

/** Writes what the changelog says of this version, under its own heading. */
export function writeReleaseNotes({ root, version, output }: Release): string[] {
  const { heading, text } = readChangelogSection(readChangelog(root), version);
  const title = heading.startsWith(version) ? heading : `${version} (${heading.toLowerCase()})`;
  writeFileSync(join(output, file), `# vipnat ${title}\n\n${text}\n`);
  return [file];
}

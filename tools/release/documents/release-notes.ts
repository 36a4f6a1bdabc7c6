import type { Release } from '../settings/release.ts';
import { readChangelogSection, readChangelog } from './changelog.ts';
import { isImageArchive, readArchiveDigest } from '../images/digests.ts';
import { findSigningKey, verifyCommand } from './signature.ts';
import { listFiles } from './sums.ts';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const file = 'RELEASE-NOTES.md';

/** What scripts/push-images writes: a line for each image, with its name and the digest by which the registry serves it. */
const pushedFile = 'IMAGES';

/** Writes what the changelog says of this version, under its own heading, and how to verify the files beside it. */
export function writeReleaseNotes(release: Release): string[] {
  const { root, version, output } = release;
  const { heading, text } = readChangelogSection(readChangelog(root), version);
  const title = heading.startsWith(version) ? heading : `${version} (${heading.toLowerCase()})`;
  const parts = [`# vipnat ${title}`, text, '## Verify', ...listCommands(), ...listDigests(release)];
  writeFileSync(join(output, file), `${parts.join('\n\n')}\n`);
  return [file];
}

function listCommands(): readonly string[] {
  return [
    'This command checks the files that you have: `sha256sum --check --ignore-missing SHA256SUMS`.',
    ...(findSigningKey() === null
      ? []
      : [
          `This command checks who made them, without a network: \`${verifyCommand}\`. SECURITY.md has the key.`,
        ]),
  ];
}

/** The table of the images, as far as they are made. */
function listDigests({ output, kept = null }: Release): readonly string[] {
  const archives = [kept, output].flatMap((folder) =>
    folder === null
      ? []
      : listFiles(folder)
          .filter(isImageArchive)
          .map((name) => [name, readArchiveDigest(join(folder, name))] as const),
  );
  const lines = [...readPushed(kept), ...[...new Map(archives)].sort()];
  if (lines.length === 0) return [];
  const rows = lines.map(([name, digest]) => `| \`${name}\` | \`${digest}\` |`);
  return [['| image | digest |', '| --- | --- |', ...rows].join('\n')];
}

function readPushed(kept: string | null): readonly (readonly [string, string])[] {
  if (kept === null || !existsSync(join(kept, pushedFile))) return [];
  const text = readFileSync(join(kept, pushedFile), 'utf8');
  return [...text.matchAll(/^(\S+) {2}(sha256:[0-9a-f]{64})$/gm)].map(
    ([, name = '', digest = '']) => [name, digest] as const,
  );
}

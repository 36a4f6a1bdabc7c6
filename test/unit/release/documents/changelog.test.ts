import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { mkdirSync, writeFileSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test, expect } from '@jest/globals';
import { readChangelogSection, requireTag } from '../../../../tools/release/documents/changelog.ts';
import { ReleaseError } from '../../../../tools/release/settings/error.ts';
import { writeReleaseNotes } from '../../../../tools/release/documents/release-notes.ts';

const released = `# Changelog

## Unreleased

- Newer.

## 1.2.0 (2026-11-23)

- One.

## 1.1.0

- Zero.
`;
const unreleased = '# Changelog\n\n## Unreleased\n\n- First.\n';

let root: string;
makeFolderEach('changelog', (path) => {
  root = path;
});

const put = (file: string, text: string) => {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
};

function release(version: string, changelog: string) {
  writeFileSync(join(root, 'CHANGELOG.md'), changelog);
  put('package-lock.json', JSON.stringify({ version, packages: { '': { version } } }));
  return { root, version, revision: 'unknown', epoch: 0, output: root, say: () => undefined };
}

describe("the changelog's section of a version", () => {
  test.each([
    ['1.2.0', released, { heading: '1.2.0 (2026-11-23)', text: '- One.' }],
    // It begins with the same digits as a version that has one.
    ['1.2', released, { heading: 'Unreleased', text: '- Newer.' }],
    ['1.2.0', unreleased, { heading: 'Unreleased', text: '- First.' }],
  ])('%s is its own, or what is unreleased', (version, changelog, section) => {
    expect(readChangelogSection(changelog, version)).toEqual(section);
  });

  test('is asked for where there is neither', () => {
    expect(() => readChangelogSection('# Changelog\n', '1.2.0')).toThrow(
      new ReleaseError('CHANGELOG.md has neither "## 1.2.0" nor "## Unreleased": add one of them'),
    );
  });
});

const verify =
  '\n## Verify\n\nThis command checks the files that you have: `sha256sum --check --ignore-missing SHA256SUMS`.\n';

describe('RELEASE-NOTES.md', () => {
  test.each([
    ['1.2.0', released, '# vipnat 1.2.0 (2026-11-23)\n\n- One.\n'],
    ['1.3.0', unreleased, '# vipnat 1.3.0 (unreleased)\n\n- First.\n'],
  ])('of %s has its section under its heading', (version, changelog, expected) => {
    expect(writeReleaseNotes(release(version, changelog))).toEqual(['RELEASE-NOTES.md']);
    expect(readFileSync(join(root, 'RELEASE-NOTES.md'), 'utf8')).toBe(`${expected}${verify}`);
  });
});

describe('a tag', () => {
  test('of the version that the changelog has passes', () => {
    requireTag('v1.2.0', release('1.2.0', released));
  });

  test.each([
    ['v1.2.0', '1.3.0', 'x', 'the tag v1.2.0 does not match version 1.3.0 of package.json'],
    ['v1.3.0', '1.3.0', 'x', 'CHANGELOG.md has no "## 1.3.0": rename "## Unreleased"'],
    ['v1.2.0', '1.2.0', 'abc-dirty', 'the checkout has changes that no commit has'],
  ])('%s of a checkout of %s, at the commit %s, is refused', (tag, version, revision, message) => {
    expect(() => {
      requireTag(tag, { ...release(version, released), revision });
    }).toThrow(message);
  });

  test.each([
    ['package-lock.json', '{ "version": "1.1.0", "packages": {} }', 'npm install --package-lock-only'],
    ['manifests/daemonset.yaml', '          image: localhost/vipnat:1.1.0\n', 'scripts/manifests'],
    ['manifests/chart/Chart.yaml', 'version: 1.2.0\nappVersion: 1.1.0\n', 'scripts/manifests'],
    ['docs/install.md', 'It is so.\n\nNo registry\nhas the image yet.\n', 'it says "No registry has"'],
    ['README.md', 'vipnat is not published yet.\n', 'it says "vipnat is not published"'],
    ['README.md', 'No\nversion has been released.\n', 'it says "No version has been released"'],
  ])('of a checkout whose %s is of another version is refused', (file, text, finding) => {
    const made = release('1.2.0', released);
    put('manifests/daemonset.yaml', '          image: localhost/vipnat:1.2.0\n          version: v1\n');
    requireTag('v1.2.0', made);
    put(file, text);
    expect(() => {
      requireTag('v1.2.0', made);
    }).toThrow(new ReleaseError(`the checkout is not ready for 1.2.0:\n${file}: ${finding}`));
  });
});

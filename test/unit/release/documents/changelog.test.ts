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

/** A release of a checkout with this changelog, into the same folder. */
function release(version: string, changelog: string) {
  writeFileSync(join(root, 'CHANGELOG.md'), changelog);
  put('package-lock.json', JSON.stringify({ version, packages: { '': { version } } }));
  return { root, version, revision: 'unknown', epoch: 0, output: root, say: () => undefined };
}

describe("the changelog's section of a version", () => {
  test('ends where the next one begins', () => {
    expect(readChangelogSection(released, '1.2.0')).toEqual({
      heading: '1.2.0 (2026-11-23)',
      text: '- One.',
    });
  });

  test('is not that of a version which begins with the same digits', () => {
    expect(readChangelogSection(released, '1.2').heading).toBe('Unreleased');
  });

  test('is what is unreleased before the version has one', () => {
    expect(readChangelogSection(unreleased, '1.2.0')).toEqual({ heading: 'Unreleased', text: '- First.' });
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
    [
      'v1.2.0',
      '1.3.0',
      released,
      'the tag v1.2.0 does not match version 1.3.0 of package.json: change one of the two',
    ],
    [
      'v1.3.0',
      '1.3.0',
      released,
      'CHANGELOG.md has no "## 1.3.0": rename "## Unreleased" before you set the tag',
    ],
  ])('%s of a checkout of %s is refused', (tag, version, changelog, message) => {
    expect(() => {
      requireTag(tag, release(version, changelog));
    }).toThrow(new ReleaseError(message));
  });

  test.each([
    [
      'package-lock.json',
      '{ "version": "1.1.0", "packages": { "": { "version": "1.1.0" } } }',
      'package-lock.json: npm install --package-lock-only',
    ],
    [
      'manifests/daemonset.yaml',
      '          image: localhost/vipnat:1.1.0\n',
      'manifests/daemonset.yaml: scripts/manifests',
    ],
    [
      'manifests/chart/Chart.yaml',
      'version: 1.2.0\nappVersion: 1.1.0\n',
      'manifests/chart/Chart.yaml: scripts/manifests',
    ],
    [
      'docs/install.md',
      'It is so.\n\nNo registry\nhas the image yet.\n',
      'docs/install.md: it says "No registry has"',
    ],
    ['README.md', 'vipnat is not published yet.\n', 'README.md: it says "vipnat is not published"'],
  ])('of a checkout whose %s is of another version is refused', (file, text, finding) => {
    const made = release('1.2.0', released);
    put('manifests/daemonset.yaml', '          image: localhost/vipnat:1.2.0\n          version: v1\n');
    requireTag('v1.2.0', made);
    put(file, text);
    expect(() => {
      requireTag('v1.2.0', made);
    }).toThrow(new ReleaseError(`the checkout is not ready for 1.2.0:\n${finding}`));
  });

  test('of a checkout with changes is refused: nobody could make its files again', () => {
    expect(() => {
      requireTag('v1.2.0', { ...release('1.2.0', released), revision: 'abc-dirty' });
    }).toThrow('the checkout has changes that no commit has');
  });
});

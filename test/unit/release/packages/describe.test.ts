import { afterEach, describe, expect, test } from '@jest/globals';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { describePackage } from '../../../../tools/release/packages/describe.ts';

let root: string;
makeFolderEach('describe', (path) => {
  root = path;
});
afterEach(() => {
  delete process.env['RELEASE_MAINTAINER'];
  delete process.env['RELEASE_REPOSITORY'];
});

/** What a package says of where it is from. */
function describeOrigin(author: string | undefined, given: string, repository: string): object {
  writeFileSync(join(root, 'package.json'), JSON.stringify({ author }));
  process.env['RELEASE_MAINTAINER'] = given;
  process.env['RELEASE_REPOSITORY'] = repository;
  const release = { root, version: '1.2.0', revision: 'x', epoch: 0, output: root, say: () => undefined };
  const scripts = { postinstall: undefined, preremove: undefined, postremove: undefined };
  return describePackage(release, 'amd64', 'deb', { files: [], scripts });
}

describe('a package', () => {
  test.each([
    [undefined, '', 'The vipnat authors <vipnat@localhost.invalid>'],
    ['A. Person <a@mail.example>', '', 'A. Person <a@mail.example>'],
    ['A. Person <a@mail.example>', 'B <b@mail.example>', 'B <b@mail.example>'],
  ])('of author %j and RELEASE_MAINTAINER %j is of %s', (author, given, maintainer) => {
    const text = 'https://git.example/vipnat';
    expect(describeOrigin(author, given, text)).toMatchObject({ maintainer, homepage: text });
    expect(describeOrigin(author, given, '')).not.toHaveProperty('homepage');
  });

  test('leaves keepalived to who follows the quickstart', () => {
    const { depends = [], recommends = [] } = describeOrigin(undefined, '', '') as Record<string, string[]>;
    // apt installs both kinds, and Debian starts what it installs.
    expect([...depends, ...recommends]).toEqual(expect.not.arrayContaining(['keepalived']));
    expect(readFileSync('docs/quickstart.md', 'utf8')).toContain('`apt-get install keepalived`');
  });

  test.each(['a@mail.example', 'A <a>', 'A <a@b> c'])('of nobody mail reaches is refused: %s', (given) => {
    expect(() => describeOrigin(undefined, given, '')).toThrow("Example: RELEASE_MAINTAINER='A. Person");
  });
});

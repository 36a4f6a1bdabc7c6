import { describe, test, expect } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';
import { version } from '../../../support/manifest/printing.ts';
import { requirePapers, toReleasePaper } from '../../../../tools/release/documents/papers.ts';

const names = {
  ...{ version: '0.2.0-rc.1', checkoutImage: 'localhost/vipnat', repository: 'ghcr.example/acme/vipnat' },
  tag: '0.2.0-rc.1',
};

describe('a document of a release', () => {
  test.each([
    ['vipnat_0.1.0-1_amd64.deb', 'vipnat_0.2.0-rc.1-1_amd64.deb'],
    ['vipnat-0.1.0-1.x86_64.rpm', 'vipnat-0.2.0-rc.1-1.x86_64.rpm'],
    ['vipnat-0.1.0-linux-amd64', 'vipnat-0.2.0-rc.1-linux-amd64'],
    ['"file:$PWD/vipnat-0.1.0-rc.3.tgz"', '"file:$PWD/vipnat-0.2.0-rc.1.tgz"'],
    ['vipnat-chart-0.1.0.tgz', 'vipnat-chart-0.2.0-rc.1.tgz'],
    ['vipnat-keepalived-image-0.1.0-linux-amd64.tar', 'vipnat-keepalived-image-0.2.0-rc.1-linux-amd64.tar'],
    ['image: localhost/vipnat:0.1.0', 'image: ghcr.example/acme/vipnat:0.2.0-rc.1'],
    ['`localhost/vipnat-keepalived:0.1.0`.', '`ghcr.example/acme/vipnat-keepalived:0.2.0-rc.1`.'],
    ['registry.example/vipnat:0.1.0', 'registry.example/vipnat:0.2.0-rc.1'],
  ])('has %s as %s', (text, expected) => {
    expect(toReleasePaper(`in ${text}\n`, names)).toBe(`in ${expected}\n`);
  });

  test.each([
    ...['buildah reads `localhost/vipnat`', 'which-command 0.1.0', 'kubernetes 1.36.3', 'my-vipnat-1.0.0'],
  ])('has %s as it is', (text) => {
    expect(toReleasePaper(text, names)).toBe(text);
  });

  test('names no other version than its own, and the image of no checkout', () => {
    const files = [...globSync('{README,SECURITY,docs/*}.md'), ...globSync('manifests/**/*.{md,yaml}')];
    const texts = files.map((file) => toReleasePaper(readFileSync(file, 'utf8'), names));
    expect(texts.filter((text) => /localhost\/vipnat(?:-keepalived)?:\d/.test(text))).toEqual([]);
    const versions = texts.flatMap(
      (text) => text.match(/(?<=\bvipnat(?:-[a-z]+)*[-_:])\d+\.\d+\.\d+(?:-rc\.\d+)?/g) ?? [],
    );
    expect(versions.length).toBeGreaterThan(20);
    expect([...new Set(versions)]).toEqual([names.version]);
    requirePapers({ root: '.', version });
  });
});

import { execa } from 'execa';
import { describe, test, expect } from '@jest/globals';
import { ownImage, imageRepository, ownImages, version } from '../support/manifest/printing.ts';
import { ownImages as builtImages } from '../../cli/manifest/request.ts';
import { globSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';

const printName = (name = '', image = 'vipnat') =>
  execa('scripts/image-name', [image], { env: { RELEASE_IMAGE: name }, reject: false });

describe('the name of the image', () => {
  test('is that of package.json with the version, and has a registry', async () => {
    expect((await printName()).stdout).toBe(ownImage);
    expect(imageRepository).toMatch(/^(?:localhost|[^/]+[.:][^/]+)\//);
  });

  test('from sources, where no build was made, is the same but for the tag', () => {
    const latest = Object.values(ownImages).map((name) => name.replace(/:[^:]+$/, ':latest'));
    expect(Object.values(builtImages)).toEqual(latest);
  });

  test.each([
    ['ghcr.example/us/vipnat', `ghcr.example/us/vipnat:${version}`],
    ['registry.example:5000/vipnat', `registry.example:5000/vipnat:${version}`],
    ['[fd00::1]:5000/a/b__c:v1', '[fd00::1]:5000/a/b__c:v1'],
  ])('can be %s', async (name, whole) => {
    expect(await printName(name)).toMatchObject({ exitCode: 0, stdout: whole });
  });

  test("of keepalived's is the same and -keepalived", async () => {
    expect((await printName('', 'keepalived')).stdout).toBe(ownImages.keepalived);
    const name = 'registry.example:5000/us/vipnat';
    expect((await printName(`${name}:v1`, 'keepalived')).stdout).toBe(`${name}-keepalived:v1`);
    expect((await printName('', 'x')).stderr).toBe('image: unknown image: x (there are: vipnat, keepalived)');
  });

  test.each([
    ...'vipnat us/vipnat:1 localhost r.example/ r.example/A r.example/a:'.split(' '),
    'r.example/a b',
  ])('cannot be %j, which is said in one line', async (name) => {
    const { exitCode, stdout, stderr } = await printName(name);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(/^image: .*\. Example: registry\.example\/vipnat:0\.1\.0$/);
  });
});

/** Everything that tells people or a cluster what to run. */
const files = globSync([
  ...['*.md', 'docs/**/*.md', 'manifests/**/*.{md,tpl,txt,yaml}', '{cli,config,scripts}/**/*'],
]).filter((file) => /\.\w+$/.test(file) || file.startsWith('scripts/'));

/** Where a name stands for a registry of the reader's own. */
const placeholder = 'registry.example/vipnat';

const findNames = (text: string) =>
  [
    ...text.matchAll(
      /(?<![\w./:@-])(?<name>(?:[\w.-]+(?::\d+)?\/)*vipnat)(?:-keepalived)?:(?<tag>\d+\.\d+[\w.-]*)/g,
    ),
  ].map(({ groups }) => [groups?.['name'], groups?.['tag']?.replace(/\.$/, '')]);

describe('every name of the image in documents, manifests, chart and scripts', () => {
  const named = files.flatMap((file) =>
    findNames(readFileSync(file, 'utf8')).map(([name, tag]) => ({ file, name, tag })),
  );

  test('is the one that is built, or stands for another registry; documents may name an earlier version', () => {
    expect(named.length).toBeGreaterThan(15);
    const isOther = (name = '') => name !== imageRepository && name !== placeholder;
    const isStale = (file: string, tag?: string) => file.startsWith('manifests/') && tag !== version;
    expect(named.filter(({ file, name, tag }) => isOther(name) || isStale(file, tag))).toEqual([]);
    const inDocuments = named.filter(({ file }) => file.startsWith('docs/'));
    expect(new Set(inDocuments.map(({ tag }) => tag)).size).toBe(1);
  });

  test('that no kubelet would find is found', () => {
    expect(findNames('image: vipnat:0.1.0\n`docker run us/vipnat-keepalived:0.2.0`.')).toEqual([
      ['vipnat', '0.1.0'],
      ['us/vipnat', '0.2.0'],
    ]);
  });

  test("is the chart's too, by its values and its version", () => {
    const read = (file: string) => parse(readFileSync(`manifests/chart/${file}`, 'utf8')) as unknown;
    expect(read('values.yaml')).toMatchObject({ image: { repository: imageRepository, tag: '' } });
    expect(read('Chart.yaml')).toMatchObject({ version, appVersion: version });
  });
});

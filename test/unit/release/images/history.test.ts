import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { mkdirSync, writeFileSync, readdirSync, readFileSync } from 'node:fs';
import { test, expect } from '@jest/globals';
import { removeStageIds } from '../../../../tools/release/images/history.ts';

let folder: string;
makeFolderEach('layout', (path) => {
  folder = path;
});

const sum = (text: string) => createHash('sha256').update(text).digest('hex');

/** An image as buildah 1.28 lays it out, with one layer, and a stage by this id. */
function lay(name: string, stage: string): string {
  const layout = join(folder, name);
  const blobs = join(layout, 'blobs/sha256');
  mkdirSync(blobs, { recursive: true });
  const put = (text: string) => {
    writeFileSync(join(blobs, sum(text)), text);
    return { digest: `sha256:${sum(text)}`, size: text.length };
  };
  const layers = [put('a layer')];
  const history = [
    {
      created: '2026-01-01T00:00:00Z',
      created_by: 'RUN a',
      comment: 'FROM docker.io/library/debian:trixie-slim',
    },
    { created: '2026-01-01T00:00:00Z', created_by: 'CMD ["b"]', comment: `FROM ${stage}`, empty_layer: true },
  ];
  const config = put(JSON.stringify({ os: 'linux', config: { User: '65532' }, history }));
  const manifest = put(JSON.stringify({ schemaVersion: 2, config, layers }));
  const annotations = { 'org.opencontainers.image.ref.name': 'localhost/vipnat:0.1.0' };
  writeFileSync(join(layout, 'index.json'), JSON.stringify({ manifests: [{ ...manifest, annotations }] }));
  return layout;
}

const readAll = (layout: string) =>
  Object.fromEntries(
    (readdirSync(layout, { recursive: true }) as string[])
      .filter((name) => /json$|[0-9a-f]{64}$/.test(name))
      .sort()
      .map((name) => [name, readFileSync(join(layout, name), 'utf8')]),
  );

test('two builds, which buildah has given other ids of stages, are the same bytes', () => {
  const [one, other] = [lay('one', 'fe886b44485a'), lay('other', '97f4d6a72ac3')];
  expect(readAll(one)).not.toEqual(readAll(other));
  removeStageIds(one);
  removeStageIds(other);
  expect(readAll(one)).toEqual(readAll(other));
});

test('all else stays: the base, the name, the layers; and whatever is named by its bytes has their name and size', () => {
  const layout = lay('one', 'fe886b44485a');
  removeStageIds(layout);
  const { 'index.json': index = '', ...blobs } = readAll(layout);
  const texts = Object.entries(blobs);
  expect(texts.length).toBe(3);
  for (const [name, text] of texts) {
    expect(name).toBe(`blobs/sha256/${sum(text)}`);
    if (text !== 'a layer') expect(text).not.toContain('fe886b44485a');
    expect([index, ...Object.values(blobs)].join('\n')).toContain(
      `"digest":"sha256:${sum(text)}","size":${text.length}`,
    );
  }
  expect(index).toContain('"org.opencontainers.image.ref.name":"localhost/vipnat:0.1.0"');
  const config = Object.values(blobs).find((text) => text.includes('"history"')) ?? '';
  expect(JSON.parse(config)).toMatchObject({
    ...{ os: 'linux', config: { User: '65532' } },
    history: [{ comment: 'FROM docker.io/library/debian:trixie-slim' }, { empty_layer: true }],
  });
});

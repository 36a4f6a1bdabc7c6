import { describe, expect, test } from '@jest/globals';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { ownImage, ownImages, version } from '../support/manifest/printing.ts';
import { makeFolderEach } from '../support/network/own-folder.ts';
import { linkPrograms } from './link-programs.ts';

/** What scripts/image and the stand-ins start themselves. */
const helpers = 'bash cp dirname git mktemp rm sed sh';

let folder: string;
makeFolderEach('image', async (path) => {
  folder = path;
  await linkPrograms(folder, helpers);
});

/** What an image is made of, as the stand-in has it. */
const made = '{"bomFormat":"CycloneDX"}';

/**
 * Puts a stand-in into PATH that says on standard error what it is asked to build, that an image has 1 MB, and puts the stage
 * `sbom` where it is asked to.
 */
function provide(tool: string, status = 0): void {
  const path = join(folder, tool);
  const lines = [
    '#!/bin/sh',
    '[ "$1" = images ] && echo 1MB && exit',
    'echo "$0 $*" >&2',
    `[ "$1 $2 $3 $4" = 'build --target sbom --output' ] && echo '${made}' >"\${5#type=local,dest=}/sbom.json"`,
    `exit ${status}`,
  ];
  writeFileSync(path, `${lines.join('\n')}\n`);
  chmodSync(path, 0o755);
}

const build = (...words: readonly string[]) =>
  execa('scripts/image', words, { env: { PATH: folder }, extendEnv: false, reject: false });

describe('scripts/image', () => {
  test.each([
    [['buildah'], 'buildah'],
    [['buildah', 'podman'], 'podman'],
    [['buildah', 'docker', 'podman'], 'docker'],
  ])('with %j here, it builds with %s', async (tools, chosen) => {
    for (const tool of tools) provide(tool);
    const { exitCode, stdout, stderr } = await build();
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: `${ownImage}: 1MB, built with ${chosen}`,
    });
    expect(stderr).toMatch(
      new RegExp(
        `/${chosen} build --tag ${ownImage} --build-arg RELEASE_IMAGE=${ownImage} --build-arg VERSION=${version} `,
      ),
    );
  });

  test('hands on the tag, other images to build on, and what is for the tool', async () => {
    provide('docker');
    provide('buildah');
    const words = '--tool buildah --tag r.example/t:2 --base b:1 --builder n:1 -- --label a=b';
    const { stdout, stderr } = await build(...words.split(' '));
    expect(stdout).toBe('r.example/t:2: 1MB, built with buildah');
    expect(stderr).toContain('/buildah build --tag r.example/t:2 --build-arg RELEASE_IMAGE=r.example/t:2 ');
    expect(stderr).toContain(
      ' --build-arg BASE=b:1 --build-arg BUILDER=n:1 --label a=b --format docker --layers ',
    );
  });

  test('writes the SBOM where it is told to, built of the same', async () => {
    provide('podman');
    const file = join(folder, 'out.json');
    const { exitCode, stdout, stderr } = await build('--base', 'b:1', '--sbom', file);
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: `${ownImage}: 1MB, built with podman, its SBOM is in ${file}`,
    });
    expect(readFileSync(file, 'utf8')).toBe(`${made}\n`);
    const [image = '', sbom = ''] = stderr.split('\n').map((line) => line.replace(/^.*? --build-arg /, ''));
    expect(image).toContain('BASE=b:1');
    expect(sbom).toBe(image);
  });

  test("builds keepalived's of a file of its own, and tells tools the time of all files", async () => {
    const epoch = '1767225600';
    const buildAt = (...words: readonly string[]) =>
      execa('scripts/image', words, { env: { PATH: folder, SOURCE_DATE_EPOCH: epoch }, extendEnv: false });
    provide('buildah');
    const { stdout, stderr } = await buildAt('keepalived');
    expect(stdout).toBe(`${ownImages.keepalived}: 1MB, built with buildah`);
    expect(stderr).toMatch(/ --tag \S+-keepalived:\S+ --file \S+\/Dockerfile\.keepalived /);
    expect(stderr).toContain(` --build-arg SOURCE_DATE_EPOCH=${epoch} --timestamp ${epoch} --layers=false `);
    provide('docker');
    const { stderr: ofDocker } = await buildAt('keepalived', '--tag', 'r.example/k:2');
    expect(ofDocker).toMatch(/ --tag r\.example\/k:2 .* --build-arg SOURCE_DATE_EPOCH=\d+ (?!--timestamp)/);
  });

  test('says so when the SBOM cannot be written', async () => {
    provide('podman');
    const { exitCode, stdout, stderr } = await build('--sbom', join(folder, 'none/out.json'));
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(/\nimage: \S+\/none\/out\.json cannot be written$/);
  });

  test.each([
    [[], /^image: docker, podman and buildah are all not in PATH: install one of them/],
    [['--tool', 'podman'], /^image: podman is not in PATH: install it, or leave out --tool$/],
    [['--tool', 'kaniko'], /^image: --tool kaniko: there are docker, podman, buildah$/],
    [['--tag'], /^image: --tag needs a value$/],
    [['--tag', 'vipnat:2'], /^image: the image's name 'vipnat:2' has no registry, .*\. Example: \S+$/],
    [['--push'], /^image: unknown argument: --push \(there are: .*\)$/],
  ])('with nothing here, %j fails in one line', async (words, line) => {
    const { exitCode, stdout, stderr } = await build(...words);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(line);
  });

  test('fails when the tool fails', async () => {
    provide('docker', 3);
    const { exitCode, stdout, stderr } = await build();
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(/\nimage: docker could not build it; what it printed is above$/);
  });
});

import { describe, expect, test } from '@jest/globals';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { ownImages } from '../support/manifest/printing.ts';
import { makeFolderEach } from '../support/network/own-folder.ts';
import { linkPrograms } from './link-programs.ts';

const helpers = 'bash cat cp dirname grep mktemp mv rm sort tar tee';

let folder: string;
makeFolderEach('push', async (path) => {
  folder = path;
  await linkPrograms(folder, helpers);
});

const digests = { vipnat: `sha256:${'a'.repeat(64)}`, keepalived: `sha256:${'b'.repeat(64)}` };
const made = `sha256:${'c'.repeat(64)}`;

/** An archive of each image, as far as its digest goes. */
async function putArchives(): Promise<void> {
  for (const [image, digest] of Object.entries(digests)) {
    const name = image === 'vipnat' ? 'vipnat-image' : `vipnat-${image}-image`;
    writeFileSync(join(folder, 'index.json'), JSON.stringify({ manifests: [{ digest }] }));
    const archive = join(folder, `${name}-1.2.0-linux-amd64.tar`);
    await execa('tar', ['--create', '--file', archive, '--directory', folder, 'index.json']);
  }
}

/** A stand-in for buildah: the registry answers `answer` until something is pushed, then it has what was added. */
function provideBuildah(answer: string): void {
  const lines = [
    '#!/bin/bash',
    'cd "${0%/*}"',
    'echo "$*" >>calls',
    'case "$*" in',
    '  "manifest create "*) echo list; rm -f added ;;',
    '  "manifest add "*) tar --extract --to-stdout --file "${4#oci-archive:}" index.json >added ;;',
    '  "manifest push "*) cp added pushed; echo -n ' + made + ' >"$8" ;;',
    '  "manifest inspect "*) if [ -e pushed ]; then cat pushed; rm pushed; else ' + answer + '; fi ;;',
    'esac',
  ];
  const path = join(folder, 'buildah');
  writeFileSync(path, `${lines.join('\n')}\n`);
  chmodSync(path, 0o755);
}

async function push(answer: string) {
  await putArchives();
  provideBuildah(answer);
  const options = { env: { PATH: folder }, extendEnv: false, reject: false };
  const { exitCode, stdout, stderr } = await execa('scripts/push-images', [folder], options);
  const isPushed = readFileSync(join(folder, 'calls'), 'utf8').includes('manifest push');
  return { exitCode, stdout, stderr, isPushed };
}

const failWith = (text: string) => `echo '${text}' >&2; exit 125`;

describe('scripts/push-images', () => {
  test('pushes a tag that the registry does not have, and lists the digests', async () => {
    const lines = Object.values(ownImages).map((name) => `${name}  ${made}\n`);
    const { exitCode, stdout } = await push(failWith('reading manifest: manifest unknown'));
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: lines.join('').trimEnd() });
    expect(readFileSync(join(folder, 'IMAGES'), 'utf8')).toBe(lines.join(''));
  });

  test('goes on where a run before it ended', async () => {
    const isOurs = `[[ $* == *keepalived* ]] && digest=${digests.keepalived} || digest=${digests.vipnat}`;
    const { exitCode, isPushed } = await push(`${isOurs}; echo "{ \\"digest\\": \\"$digest\\" }"`);
    expect({ exitCode, isPushed }).toEqual({ exitCode: 0, isPushed: true });
  });

  test.each([
    ['has other images', `echo '{ "digest": "sha256:${'d'.repeat(64)}" }'`, 'the registry has other images'],
    ['says nothing', failWith('connection refused'), 'the registry does not say whether it has'],
  ])('pushes nothing where the registry %s', async (_, answer, message) => {
    const { exitCode, stderr, isPushed } = await push(answer);
    expect({ exitCode, isPushed }).toEqual({ exitCode: 1, isPushed: false });
    expect(stderr).toContain(message);
    expect(existsSync(join(folder, 'IMAGES'))).toBe(false);
  });
});

import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { mkdirSync, rmSync, writeFileSync, readdirSync, readFileSync } from 'node:fs';
import { afterEach, describe, test, expect } from '@jest/globals';
import { makeRelease } from '../../../../tools/release/program/make.ts';
import { execaSync } from 'execa';

let root: string;
let output: string;
makeFolderEach('release', (path) => {
  root = path;
  output = join(root, 'dist-release');
  mkdirSync(output);
  writeFileSync(join(root, 'CHANGELOG.md'), '## 1.2.0\n\n- One.\n');
});

afterEach(() => {
  delete process.env['RELEASE_SIGNING_KEY'];
});

/** An image's archive, as far as its digest goes. */
function putArchive(name: string, digest: string): void {
  writeFileSync(join(root, 'index.json'), JSON.stringify({ manifests: [{ digest }] }));
  execaSync('tar', ['--create', '--file', join(output, name), '--directory', root, 'index.json']);
}

/** Makes a key, and has its public half in SECURITY.md where it `isKnown`. */
function makeKey(isKnown: boolean): void {
  const key = join(root, 'key');
  execaSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
  const line = `vipnat-release namespaces="vipnat-release" ${readFileSync(`${key}.pub`, 'utf8')}`;
  writeFileSync(join(root, 'SECURITY.md'), isKnown ? `# Keys\n\n${line}` : '# Keys\n');
  process.env['RELEASE_SIGNING_KEY'] = key;
}

const release = () => ({ root, version: '1.2.0', revision: 'x', epoch: 0, output, say: () => undefined });

describe('a release', () => {
  test('sums up nothing that one before it had begun when it was killed', async () => {
    mkdirSync(join(output, '.draft'));
    writeFileSync(join(output, '.draft/vipnat_1.1.0-1_amd64.deb'), 'half');
    expect(await makeRelease(release(), ['notes'])).toMatch(/^ +\d\.\d kB {2}RELEASE-NOTES\.md\n$/);
    expect(readdirSync(output).sort()).toEqual(['RELEASE-NOTES.md', 'SHA256SUMS']);
    expect(execaSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: output }).stdout).toBe(
      'RELEASE-NOTES.md: OK',
    );
  });

  test('leaves everything as it was where a step fails', async () => {
    rmSync(join(root, 'CHANGELOG.md'));
    writeFileSync(join(output, 'SHA256SUMS'), 'as it was');
    await expect(makeRelease(release(), ['notes'])).rejects.toThrow('CHANGELOG.md');
    expect(readdirSync(output)).toEqual(['SHA256SUMS']);
    expect(readFileSync(join(output, 'SHA256SUMS'), 'utf8')).toBe('as it was');
  });

  test('names the digest of each image: of the archives that are there, and of those that the registry has', async () => {
    const [amd64, arm64, pushed] = ['a', 'b', 'c'].map((digit) => `sha256:${digit.repeat(64)}`);
    putArchive('vipnat-image-1.2.0-linux-arm64.tar', arm64 ?? '');
    putArchive('vipnat-keepalived-image-1.2.0-linux-amd64.tar', amd64 ?? '');
    writeFileSync(join(output, 'IMAGES'), `ghcr.example/acme/vipnat:1.2.0  ${pushed}\n`);
    await makeRelease(release(), ['notes']);
    const rows = readFileSync(join(output, 'RELEASE-NOTES.md'), 'utf8').match(/^\| `.*$/gm);
    expect(rows).toEqual([
      `| \`ghcr.example/acme/vipnat:1.2.0\` | \`${pushed}\` |`,
      `| \`vipnat-image-1.2.0-linux-arm64.tar\` | \`${arm64}\` |`,
      `| \`vipnat-keepalived-image-1.2.0-linux-amd64.tar\` | \`${amd64}\` |`,
    ]);
  });

  test("is signed by a key whose public half SECURITY.md has, and by the notes' own command it is verified", async () => {
    makeKey(true);
    await makeRelease(release(), ['notes']);
    const [, command = ''] =
      /`(ssh-keygen [^`]*)`/.exec(readFileSync(join(output, 'RELEASE-NOTES.md'), 'utf8')) ?? [];
    const verify = `grep '^vipnat-release namespaces=' ../SECURITY.md >vipnat-signers; ${command}`;
    const run = () => execaSync('sh', ['-c', verify], { cwd: output, reject: false }).exitCode;
    expect(run()).toBe(0);
    writeFileSync(join(output, 'SHA256SUMS'), 'others');
    expect(run()).toBe(255);
    delete process.env['RELEASE_SIGNING_KEY'];
    await makeRelease(release(), ['notes']);
    expect(readdirSync(output)).not.toContain('SHA256SUMS.sig');
  });

  test('is not signed by a key that nobody could verify it by', async () => {
    makeKey(false);
    await expect(makeRelease(release(), ['notes'])).rejects.toThrow('for the key in SECURITY.md');
    expect(readdirSync(output)).not.toContain('SHA256SUMS.sig');
  });
});

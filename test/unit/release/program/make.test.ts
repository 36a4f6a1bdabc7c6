import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { mkdirSync, writeFileSync, readdirSync, readFileSync } from 'node:fs';
import { describe, test, expect } from '@jest/globals';
import { makeRelease } from '../../../../tools/release/program/make.ts';
import { execaSync } from 'execa';

let root: string;
let output: string;
makeFolderEach('release', (path) => {
  root = path;
  output = join(root, 'dist-release');
  mkdirSync(output);
});

const release = () => ({ root, version: '1.2.0', revision: 'x', epoch: 0, output, say: () => undefined });

describe('a release', () => {
  test('sums up nothing that one before it had begun when it was killed', async () => {
    writeFileSync(join(root, 'CHANGELOG.md'), '## 1.2.0\n\n- One.\n');
    mkdirSync(join(output, '.draft'));
    writeFileSync(join(output, '.draft/vipnat_1.1.0-1_amd64.deb'), 'half');
    expect(await makeRelease(release(), ['notes'])).toMatch(/^ +\d\.\d kB {2}RELEASE-NOTES\.md\n$/);
    expect(readdirSync(output).sort()).toEqual(['RELEASE-NOTES.md', 'SHA256SUMS']);
    expect(execaSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: output }).stdout).toBe(
      'RELEASE-NOTES.md: OK',
    );
  });

  test('leaves everything as it was where a step fails', async () => {
    writeFileSync(join(output, 'SHA256SUMS'), 'as it was');
    await expect(makeRelease(release(), ['notes'])).rejects.toThrow('CHANGELOG.md');
    expect(readdirSync(output)).toEqual(['SHA256SUMS']);
    expect(readFileSync(join(output, 'SHA256SUMS'), 'utf8')).toBe('as it was');
  });
});

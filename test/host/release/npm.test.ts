import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { execa } from 'execa';
import { type Bases, prepareBases } from '../../support/image/build.ts';
import { findArtifact, makeArtifacts, releaseLimitMs } from '../../support/release/artifacts.ts';

let bases: Bases;
let container = '';
let tarball = '';
beforeAll(async () => {
  tarball = findArtifact(await makeArtifacts(), /^vipnat-\d[\w.-]*\.tgz$/);
  bases = await prepareBases();
  container = (await execa('buildah', ['from', bases.builder], { env: bases.env })).stdout;
}, releaseLimitMs);
afterAll(async () => {
  if (container !== '') await execa('buildah', ['rm', container], { env: bases.env });
});

/** On a Debian that has Node.js and npm, and no network at all. */
async function run(script: string) {
  const flags = ['--cap-add', 'CAP_SYS_ADMIN', '--volume', `${tarball}:/vipnat.tgz:ro`];
  const words = ['run', ...flags, container, '--', 'unshare', '--net', 'bash', '-c', script];
  return await execa('buildah', words, { env: bases.env, reject: false });
}

describe('the npm package', () => {
  test('runs by npx where nothing else is, without a network', async () => {
    const npx = 'node /usr/local/lib/node_modules/npm/bin/npx-cli.js --yes --offline file:/vipnat.tgz';
    const { exitCode, stdout } = await run(
      `${npx} plan --offline --vip 10.0.0.50 --proxy-mode iptables; ${npx} --version`,
    );
    expect([exitCode, stdout.includes('iptables-nft -t nat -N VIPNAT-')]).toEqual([0, true]);
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(stdout.split('\n').at(-1)).toBe(version);
  });

  test('loads what only an agent needs, its native part included', async () => {
    const script =
      'npm install --offline --no-audit --global /vipnat.tgz >&2 && vipnat run --once --vip 10.0.0.50';
    expect((await run(script)).stderr).toContain('TOOL_MISSING');
  });

  test('depends on no other package, and has no file that only a checkout needs', async () => {
    const { stdout: names } = await execa('tar', ['--list', '--file', tarball]);
    const tops = [...new Set(names.split('\n').map((name) => name.split('/')[1]))];
    const texts = 'CHANGELOG.md LICENSE README.md SECURITY.md THIRD-PARTY-LICENSES.txt';
    expect(tops.sort().join(' ')).toBe(`${texts} dist docs manifests package.json`);
    const words = ['--extract', '--to-stdout', '--file', tarball, 'package/package.json'];
    const { stdout } = await execa('tar', words);
    const { version, engines, ...rest } = JSON.parse(stdout) as Record<string, unknown>;
    const source = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, unknown>;
    expect({ version, engines }).toEqual({ version: source['version'], engines: source['engines'] });
    expect(Object.keys(rest).filter((key) => /ependencies|scripts|private/.test(key))).toEqual([]);
  });
});

import { globSync, readFileSync, existsSync } from 'node:fs';
import * as z from 'zod/mini';
import { parse } from 'yaml';
import { describe, test, expect, beforeAll } from '@jest/globals';
import { onlyFull } from '../support/jest/extent.ts';
import { spawnSync } from 'node:child_process';
import { buildActionlint, locateActionlint } from '../../tools/lab/build/build.ts';
import { execa } from 'execa';

const files = globSync('.github/workflows/*.yml').sort();

/** What publishing takes: a release, its images, and the attestation of where they were made. */
const publishing = ['contents', 'packages', 'id-token', 'attestations'];

const permissions = z.record(z.string(), z.enum(['read', 'write']));
const step = z.object({ uses: z.optional(z.string()), run: z.optional(z.string()) });
const job = z.object({
  permissions,
  needs: z.optional(z.string()),
  uses: z.optional(z.string()),
  steps: z._default(z.array(step), []),
});
const workflow = z.object({
  permissions,
  jobs: z.record(z.string(), job),
});

const workflows = files.map((file) => {
  const text = readFileSync(file, 'utf8');
  return { file, text, ...workflow.parse(parse(text)) };
});

describe.each(workflows)('$file', ({ text, permissions: preset, jobs }) => {
  const steps = Object.values(jobs).flatMap((job) => job.steps);

  test('gives nobody a right that is not named for a job', () => {
    expect(preset).toEqual({});
    for (const [name, { permissions: rights }] of Object.entries(jobs)) {
      const written = Object.keys(rights).filter((right) => rights[right] === 'write');
      expect([name, written]).toEqual([name, name === 'publish' ? publishing : []]);
    }
  });

  test("uses the forge's own actions only, each by its commit, with its version beside it", () => {
    const used = steps.flatMap(({ uses }) => uses ?? []);
    expect(used.length).toBeGreaterThan(0);
    for (const name of used) {
      expect(name).toMatch(/^actions\/[a-z-]+@[0-9a-f]{40}$/);
      expect(text).toMatch(new RegExp(`${name} # v\\d+\\.\\d+\\.\\d+$`, 'm'));
    }
  });

  test('runs scripts that are there, and writes nothing of an event into a script', () => {
    const scripts = steps.flatMap(({ run }) => run ?? []).join('\n');
    const named = scripts.match(/(?<![\w/.-])scripts\/[a-z-]+/g) ?? [];
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((name) => !existsSync(name))).toEqual([]);
    expect(scripts).not.toContain('${{');
  });
});

describe('a release', () => {
  const jobs = workflows.find(({ file }) => file.endsWith('release.yml'))?.jobs ?? {};
  const scripts = jobs['publish']?.steps.flatMap(({ run, uses }) => run ?? uses ?? []).join('\n') ?? '';

  test('is made once the tests of its commit are green', () => {
    expect(jobs['test']?.uses).toBe('./.github/workflows/ci.yml');
    expect([jobs['make']?.needs, jobs['publish']?.needs]).toEqual(['test', 'make']);
  });

  test('is public only when all of it is there: draft, images, sums, attestation, publication', () => {
    const order = [
      ...['gh release create', 'scripts/push-images', 'buildah logout', 'buildah manifest inspect'],
      ...['scripts/release --tag', 'actions/attest-build-provenance', 'gh release upload', '--draft=false'],
    ];
    const places = order.map((word) => scripts.lastIndexOf(word));
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(scripts).toContain('options=(--draft');
    // Nobody can make a tag's images again with another SECURITY.md.
    expect(scripts.indexOf('export RELEASE_SIGNING_KEY')).toBeLessThan(places[0] ?? 0);
  });
});

/** Go builds actionlint from the network, which the gate does without. In CI a skipped test is a failure. */
const [describeWithGo] = onlyFull(spawnSync('go', ['version']).status === 0 ? describe : describe.skip);

describeWithGo?.('actionlint', () => {
  beforeAll(async () => {
    await buildActionlint((line) => process.stderr.write(`${line}\n`));
  }, 10 * 60_000);

  const lint = async (words: readonly string[], input = '') =>
    await execa(locateActionlint(), words, { input, reject: false });

  test('has nothing against any workflow', async () => {
    expect(files).toEqual(['.github/workflows/ci.yml', '.github/workflows/release.yml']);
    expect(await lint(files)).toMatchObject({ exitCode: 0, stdout: '' });
  });

  test('finds what is wrong with one', async () => {
    const text = readFileSync('.github/workflows/release.yml', 'utf8').replace('needs: make', 'needs: made');
    const { exitCode, stdout } = await lint(['-'], text);
    expect(exitCode).toBe(1);
    expect(stdout).toContain('needs job "made" which does not exist');
  });
});

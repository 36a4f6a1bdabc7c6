import { expect, test } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../../config/load.ts';

test('problems of a file come in the order of its lines, of whatever kind, by its own keys', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'vipnat-config-'));
  const file = join(folder, 'vipnat.yaml');
  await writeFile(
    file,
    'vip: 10.0.0.50\nprobeInterval: 5\nproxy-mode: ipvs\nendpoints:\n  - fd00::11\n  - 10.0.0.50:6443\ncaFile: /nonexistent\nmode: fast\n',
  );
  const { problems } = await readConfig({ flags: { listen: 'x' }, environment: {}, file });
  await rm(folder, { recursive: true });
  const lines = problems.map((problem) => /line (\d+)/.exec(problem)?.[1]);
  expect(lines).toEqual(['2', '3', '5', '7', '8', undefined]);
  expect(problems[0]).toMatch(/^probeInterval 5 is not .*\. Example: probeInterval: 100ms$/);
  expect(problems[3]).toMatch(/^caFile \/nonexistent cannot be read /);
  expect(problems[5]).toMatch(/^--listen x is not /);
});

import { test, expect } from '@jest/globals';
import { refuseOldNode } from '../../../cli/main.ts';
import { readFile } from 'node:fs/promises';

test.each(['18.20.8', '20.20.2', '22.18.0'])('Node %s is refused, and told what is needed', (version) => {
  const message: unknown = expect.stringContaining(`is Node ${version}, and vipnat needs 22.19 or newer`);
  expect(refuseOldNode(version)).toMatchObject({ code: 'NODE_TOO_OLD', message });
});

test.each(['22.19.0', '22.20.1', '24.0.0', '26.1.0-nightly'])('Node %s is taken', (version) => {
  expect(refuseOldNode(version)).toBeNull();
});

test('package.json asks for the same', async () => {
  const { engines } = JSON.parse(await readFile('package.json', 'utf8')) as { engines: { node: string } };
  expect(engines.node).toBe('>=22.19.0');
});

import { makeFolder } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { readConfig } from '../../../../config/load.ts';
import { findClusterRoute } from '../../../../cli/services/read.ts';
import { test, expect } from '@jest/globals';

const folder = makeFolder('kubeconfig');
const makeFile = (name: string) => {
  const path = join(folder, name);
  const text = `{clusters: [{name: a, cluster: {server: 'https://${name}:6443'}}], users: [{name: a, user: {token: t}}],
    contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}`;
  writeFileSync(path, text);
  return path;
};
const [first, second] = [makeFile('first.example'), makeFile('second.example')];
const missing = join(folder, 'missing');

const findServer = async (KUBECONFIG: string | undefined, kubeconfig: string | null = null) => {
  const { config: base } = await readConfig({ flags: {}, environment: {}, file: undefined });
  const config = { ...base, kubeconfig };
  return (await findClusterRoute(config, 'services', { KUBECONFIG }).choose()).access.host;
};

test('KUBECONFIG names the credentials: the first file of its list that exists, after --kubeconfig', async () => {
  expect(await findServer(first)).toBe('first.example');
  expect(await findServer(`${missing}::${second}:${first}`)).toBe('second.example');
  expect(await findServer(first, second)).toBe('second.example');
  expect(await findServer(missing, second)).toBe('second.example');
});

test('a list without a file that exists is an error that names it, and an empty one counts as none', async () => {
  const asked = findServer('/a:/b.conf:/');
  await expect(asked).rejects.toMatchObject({ code: 'API_CREDENTIALS_INVALID' });
  await expect(asked).rejects.toThrow('KUBECONFIG is /a:/b.conf');
  await expect(findServer('')).rejects.toThrow('has no credentials for it. Example: vipnat services');
});

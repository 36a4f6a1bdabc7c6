import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { makeFolder } from '../../support/network/own-folder.ts';
import { createEndpointStore } from '../../../agent/state.ts';
import { join } from 'node:path';
import {
  readdirSync,
  truncateSync,
  writeFileSync,
  symlinkSync,
  chmodSync,
  rmSync,
  chownSync,
  readFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';

const toSaved = (...texts: string[]) => ({
  savedAt: '2026-11-21T15:04:05.678Z',
  endpoints: texts.map((text) => toEndpoint(text)),
});

describe('the store of the last known apiservers, in a folder', () => {
  const root = makeFolder('state');

  test('holds nothing before anything was saved, and makes nothing', async () => {
    expect(await createEndpointStore(join(root, 'none')).load()).toBeNull();
    expect(readdirSync(root)).toEqual([]);
  });

  test('holds what was saved last, and leaves nothing else behind', async () => {
    const store = createEndpointStore(join(root, 'deep', 'er'));
    await store.save(toSaved('10.0.0.11:6443'));
    await store.save(toSaved('10.0.0.11:6443', '10.0.0.12:6443'));
    expect(await store.load()).toEqual(toSaved('10.0.0.11:6443', '10.0.0.12:6443'));
    expect(readdirSync(join(root, 'deep', 'er'))).toEqual(['endpoints.json']);
  });

  test('names a torn file, and replaces it', async () => {
    const store = createEndpointStore(join(root, 'torn'));
    await store.save(toSaved('10.0.0.11:6443'));
    truncateSync(store.location, 40);
    await expect(store.load()).rejects.toMatchObject({
      code: 'STATE_UNREADABLE',
      message: `${store.location} is cut off, or is not a file of vipnat. vipnat ignores this file, and replaces it when it knows the apiservers`,
    });
    await store.save(toSaved('10.0.0.12:6443'));
    expect(await store.load()).toEqual(toSaved('10.0.0.12:6443'));
  });

  test('says what else is in its place, reads none of it, and replaces it', async () => {
    const folder = join(root, 'planted');
    const store = createEndpointStore(folder);
    const plants: readonly (readonly [string, (path: string) => void])[] = [
      [
        'is too large for a file of vipnat',
        (path) => {
          writeFileSync(path, ' '.repeat(100_000));
        },
      ],
      ['is not a regular file', (path) => execFileSync('mkfifo', [path])],
      [
        'is a link, which vipnat does not follow',
        (path) => {
          symlinkSync(join(root, 'elsewhere'), path);
        },
      ],
      [
        'because it has mode 0666',
        (path) => {
          chmodSync(path, 0o666);
        },
      ],
      [
        'because its folder has mode 01777',
        () => {
          chmodSync(folder, 0o1777);
        },
      ],
    ];
    await createEndpointStore(root).save(toSaved('10.0.0.13:6443'));
    symlinkSync('endpoints.json', join(root, 'elsewhere'));
    for (const [problem, plant] of plants) {
      await store.save(toSaved('10.0.0.11:6443'));
      if (!problem.startsWith('because ')) rmSync(store.location);
      plant(store.location);
      await expect(store.load()).rejects.toMatchObject({
        code: 'STATE_UNREADABLE',
        message: expect.stringContaining(
          `${problem}. vipnat ignores this file, and replaces it when it knows the apiservers`,
        ),
      });
      await store.save(toSaved('10.0.0.12:6443'));
      chmodSync(folder, 0o755);
      expect(await store.load()).toEqual(toSaved('10.0.0.12:6443'));
    }
    expect(await createEndpointStore(root).load()).toEqual(toSaved('10.0.0.13:6443'));
  });

  test('believes no file of another user, and takes it over', async () => {
    if (process.getuid?.() !== 0) return;
    const store = createEndpointStore(join(root, 'foreign'));
    await store.save(toSaved('10.0.0.11:6443'));
    chownSync(store.location, 65_534, 65_534);
    await expect(store.load()).rejects.toMatchObject({
      message: expect.stringContaining('because it belongs to user 65534'),
    });
    await store.save(toSaved('10.0.0.11:6443'));
    expect(await store.load()).toEqual(toSaved('10.0.0.11:6443'));
  });

  test('says that it cannot write, and what was there stays', async () => {
    writeFileSync(join(root, 'file'), 'somebody’s');
    await expect(
      createEndpointStore(join(root, 'file')).save(toSaved('10.0.0.11:6443')),
    ).rejects.toMatchObject({
      code: 'STATE_NOT_WRITTEN',
      message: expect.stringContaining(`writing ${join(root, 'file', 'endpoints.json')} failed (EEXIST)`),
    });
    expect(readFileSync(join(root, 'file'), 'utf8')).toBe('somebody’s');
  });
});

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEndpointStore } from '../../../../agent/discovery/endpoint-store.ts';
import { toEndpoint } from '../../../fakes/endpoints.ts';

const toSaved = (...texts: string[]) => ({
  savedAt: '2026-11-21T15:04:05.678Z',
  endpoints: texts.map((text) => toEndpoint(text)),
});

describe('the store of the last known apiservers, in a folder', () => {
  let root = '';
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'vipnat-state-'));
  });
  afterAll(() => {
    rmSync(root, { recursive: true });
  });

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
      message: `${store.location} is cut off, or no file of vipnat: it is ignored, and replaced when the apiservers are known`,
    });
    await store.save(toSaved('10.0.0.12:6443'));
    expect(await store.load()).toEqual(toSaved('10.0.0.12:6443'));
  });

  test('does not read what is far too large, or no file', async () => {
    const store = createEndpointStore(root);
    writeFileSync(store.location, ' '.repeat(100_000));
    await expect(store.load()).rejects.toMatchObject({ code: 'STATE_UNREADABLE' });
    rmSync(store.location);
    execFileSync('mkfifo', [store.location]);
    await expect(store.load()).rejects.toMatchObject({ code: 'STATE_UNREADABLE' });
    rmSync(store.location);
    await expect(createEndpointStore('/dev/null').load()).rejects.toMatchObject({ code: 'STATE_UNREADABLE' });
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

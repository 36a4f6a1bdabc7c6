import { FakeClock } from '../../support/fakes/clock.ts';
import type { WriteOutcome, ObjectWrite, ObjectClient, ReadAnswer } from '../../../lib/kubernetes/writes.ts';
import { beforeEach, expect, describe, test } from '@jest/globals';
import { addressPools } from '../../../lib/api/vipnat.ts';
import { FirstPools } from '../../../controller/main.ts';

interface ConfigMap {
  metadata: { resourceVersion: string; annotations?: Record<string, string> };
  data: Record<string, string>;
}

const path = '/api/v1/namespaces/vipnat-system/configmaps/vipnat-pools';

let clock: FakeClock;
let configMap: ConfigMap | null;
let pools: Map<string, readonly string[]>;
/** How the next writes are answered, instead of as an API does. */
let answers: WriteOutcome[];
let told: string[];
let writeMs: number;

beforeEach(() => {
  clock = new FakeClock();
  configMap = { metadata: { resourceVersion: '1' }, data: { default: '10.0.9.10-10.0.9.99\nfd00:9::/120' } };
  pools = new Map();
  [answers, told, writeMs] = [[], [], 4000];
});

function write({ method, body, path: where }: ObjectWrite): WriteOutcome {
  const answer = answers.shift();
  if (answer !== undefined) return answer;
  const { metadata, spec } = body as { metadata: ConfigMap['metadata'] & { name: string }; spec?: unknown };
  if (method === 'PATCH' && where === path && configMap !== null) {
    if (metadata.resourceVersion !== configMap.metadata.resourceVersion) return 'conflict';
    configMap.metadata = { resourceVersion: '2', annotations: { ...metadata.annotations } };
    return 'taken';
  }
  expect([method, where]).toEqual(['POST', addressPools.path]);
  if (pools.has(metadata.name)) return 'exists';
  pools.set(metadata.name, (spec as { addresses: string[] }).addresses);
  return 'taken';
}

const client: ObjectClient = {
  read: <T>({ path: where }: { path: string }): Promise<ReadAnswer<T>> => {
    expect(where).toBe(path);
    const found = { outcome: 'found', object: configMap as T } as const;
    return Promise.resolve(configMap === null ? { outcome: 'gone' } : found);
  },
  write: (one) => Promise.resolve({ outcome: write(one), detail: 'as it was answered', version: null }),
};

async function begin(): Promise<FirstPools> {
  const first = new FirstPools({
    ...{ client, clock, namespace: 'vipnat-system' },
    writeMs: () => writeMs,
    onPoolCreated: (pool) => told.push(`created ${pool}`),
    onPoolExisting: (pool) => told.push(`${pool} exists`),
    onPoolsProblem: (detail) => told.push(detail),
  });
  first.start();
  await clock.advance(0);
  return first;
}

describe('the pools of a manifest', () => {
  test('are created by the first leader, once', async () => {
    await begin();
    expect(pools).toEqual(new Map([['default', ['10.0.9.10-10.0.9.99', 'fd00:9::/120']]]));
    pools.clear();
    await begin();
    expect({ pools, told, pending: clock.pending }).toEqual({
      ...{ pools: new Map(), told: ['created default'] },
      pending: 0,
    });
  });

  test('are created again when somebody asks for others after they were deleted', async () => {
    await begin();
    pools.clear();
    if (configMap !== null) configMap.data = { default: '10.0.9.10' };
    await begin();
    expect(pools).toEqual(new Map([['default', ['10.0.9.10']]]));
  });

  test('stay as they are where they exist', async () => {
    pools.set('default', ['10.0.9.200']);
    await begin();
    expect(pools).toEqual(new Map([['default', ['10.0.9.200']]]));
    expect(told).toEqual(['default exists']);
  });

  test.each(['unreachable', 'refused', 'forbidden', 'conflict'] as const)(
    'are tried again when the API answers %s',
    async (outcome) => {
      answers = [outcome];
      const first = await begin();
      expect(pools).toEqual(new Map());
      await clock.advance(1000);
      expect(told).toEqual(['as it was answered', 'created default']);
      await first.stop();
    },
  );

  test('are for another to create when this controller leads no more', async () => {
    writeMs = 0;
    await begin();
    expect({ pools, told, pending: clock.pending }).toEqual({ pools: new Map(), told: [], pending: 0 });
  });

  test('are none where there is no ConfigMap', async () => {
    configMap = null;
    await begin();
    expect({ told, pending: clock.pending }).toEqual({ told: [], pending: 0 });
  });
});

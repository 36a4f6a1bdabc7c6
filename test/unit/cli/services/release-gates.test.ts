import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  formatReleased,
  formatReleaseJson,
  formatReleasePlan,
} from '../../../../cli/format/screens/release-gates.ts';
import {
  type Release,
  releaseGates,
  selectClosed,
  toOpening,
} from '../../../../cli/services/release-gates.ts';
import { type ObjectClient } from '../../../../lib/kubernetes/object-client.ts';
import { type WriteOutcome } from '../../../../lib/kubernetes/write-object.ts';
import { gateType } from '../../../../lib/services/names.ts';
import { type Pod, toPodResource } from '../../../../lib/services/pods.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { ObjectApi } from '../../../support/fakes/object-api.ts';

const own = 'example.com/gate';
const types = new Set([gateType, own]);
const { schema } = toPodResource(types);

let clock: FakeClock;
let api: ObjectApi;
/** What happens right before a write of a pod; the answer that it gets instead, if any. */
let meanwhile: (path: string) => WriteOutcome | null | undefined;
let writes: { path: string; atMs: number }[];

beforeEach(() => {
  clock = new FakeClock();
  api = new ObjectApi(
    () => clock.date().getTime(),
    () => undefined,
  );
  meanwhile = () => null;
  writes = [];
});

const client: ObjectClient = {
  read: ({ path, schema: wanted }) => {
    const object = api.find(path);
    return Promise.resolve(
      object === null ? { outcome: 'gone' } : { outcome: 'found', object: wanted.parse(object) },
    );
  },
  write: (write) => {
    writes.push({ path: write.path, atMs: clock.now() });
    const answer = (outcome: WriteOutcome) =>
      Promise.resolve({ outcome, words: `it is ${outcome}`, version: null });
    const instead = meanwhile(write.path) ?? null;
    if (instead !== null) return answer(instead);
    const status = api.handle(write as never);
    return answer(status === 200 ? 'taken' : status === 404 ? 'gone' : 'conflict');
  },
};

const conditions = (name: string) =>
  (api.list('Pod').get(`shop/${name}`)?.status?.['conditions'] ?? []) as readonly Record<string, string>[];

function create(name: string, more: readonly object[] = [], gates = [gateType]): void {
  api.create('Pod', `shop/${name}`, {
    metadata: {},
    spec: { containers: [], readinessGates: gates.map((conditionType) => ({ conditionType })) },
    status: { conditions: [{ type: 'ContainersReady', status: 'True' }, ...more] },
  });
}

function listPods(): Pod[] {
  const { isKept } = selectClosed(types, null);
  return [...api.list('Pod').values()].map((object) => schema.parse(object)).filter((pod) => isKept?.(pod));
}

/** Opens the gates of all pods, and answers what became of each. */
async function release(waitMs = 60_000): Promise<readonly Release[]> {
  const released = releaseGates(listPods(), types, { client, clock, onReleased: () => undefined });
  await clock.advance(waitMs);
  return await released;
}

describe('release-gates', () => {
  test('opens what is not open, also gates of other names, and leaves all other conditions', async () => {
    create('a', [{ type: gateType, status: 'False' }], [gateType, own, 'foreign.example/gate']);
    create('b', [{ type: gateType, status: 'True', reason: 'LBHealthy' }]);
    create('c');
    expect(await release()).toEqual([
      { pod: 'shop/a', gates: [gateType, own], outcome: 'opened', why: null },
      { pod: 'shop/c', gates: [gateType], outcome: 'opened', why: null },
    ]);
    expect(conditions('a').map(({ type, status, reason = '' }) => [type, status, reason])).toEqual([
      ['ContainersReady', 'True', ''],
      [gateType, 'True', 'Released'],
      [own, 'True', 'Released'],
    ]);
    expect(listPods()).toEqual([]);
  });

  test('makes 20 writes a second, and tells pods that go, change or are opened meanwhile apart', async () => {
    for (let index = 0; index < 30; index += 1) create(`p-${String(index).padStart(2, '0')}`);
    const touched = new Set<string>();
    meanwhile = (path) => {
      const [, name = ''] = /pods\/([^/]+)/.exec(path) ?? [];
      if (touched.has(name)) return null;
      touched.add(name);
      if (name === 'p-03') api.remove('Pod', `shop/${name}`);
      if (name === 'p-05') api.patch('Pod', `shop/${name}`, { metadata: { labels: { by: 'kubelet' } } });
      if (name === 'p-07') {
        api.remove('Pod', `shop/${name}`);
        create(name);
      }
      if (name === 'p-09')
        api.patch(
          'Pod',
          `shop/${name}`,
          { status: { conditions: [{ type: gateType, status: 'True' }] } },
          true,
        );
      return null;
    };
    const releases = await release();
    const outcomes = new Map(releases.map(({ pod, outcome }) => [pod, outcome]));
    expect([3, 5, 7, 9, 10].map((index) => outcomes.get(`shop/p-${String(index).padStart(2, '0')}`))).toEqual(
      [...['gone', 'opened', 'gone', 'open', 'opened']],
    );
    const plan = {
      pods: [],
      types,
      opening: toOpening(clock.date()),
      leader: null,
      policy: 'gone',
      webhook: 'gone',
    } as const;
    expect(formatReleased(releases, plan)).toBe(
      'opened the gates of 27 pods, 1 pod had no closed gate by then, 2 pods went meanwhile\n',
    );
    // The pod of the same name is another one: nobody asked for its gate.
    expect(listPods().map(({ metadata }) => metadata.name)).toEqual(['p-07']);
    for (const { atMs } of writes)
      expect(writes.filter((one) => one.atMs >= atMs && one.atMs < atMs + 1000).length).toBeLessThanOrEqual(
        20,
      );
  });

  test('leaves what the API refuses, and all that is still to come where it does not answer', async () => {
    for (const name of ['a', 'b', 'c', 'd']) create(name);
    meanwhile = (path) => (path.includes('pods/a/') ? 'forbidden' : null);
    const broken = { ...client, read: () => Promise.resolve({ outcome: 'unreachable', words: '' } as const) };
    const away: ObjectClient = {
      ...broken,
      write: (write, limitMs) =>
        write.path.includes('pods/c/')
          ? Promise.resolve({ outcome: 'unreachable', words: 'no answer', version: null })
          : client.write(write, limitMs),
    };
    const told: string[] = [];
    const released = releaseGates(listPods(), types, {
      ...{ client: away, clock },
      onReleased: ({ pod }) => told.push(pod),
    });
    await clock.advance(60_000);
    const releases = await released;
    expect(releases.map(({ outcome, why }) => [outcome, why])).toEqual([
      ['left', 'it is forbidden'],
      ['opened', null],
      ['left', 'no answer'],
      ['left', 'no answer'],
    ]);
    expect(told).toEqual(['shop/a', 'shop/b', 'shop/c', 'shop/d']);
    const plan = {
      pods: listPods(),
      types,
      opening: toOpening(clock.date()),
      leader: null,
      policy: 'gone',
      webhook: 'gone',
    } as const;
    expect(formatReleased(releases, plan)).toContain(
      'the gates of 3 pods are not open: shop/a, shop/c, shop/d. To try again, repeat the command\n',
    );
  });

  test('prints the commands that do the same, and what it cannot know', () => {
    create('a');
    const opening = toOpening(new Date('2027-01-15T08:00:00.5Z'));
    const plan = {
      pods: listPods(),
      types,
      opening,
      leader: 'c1',
      policy: 'there',
      webhook: 'there',
    } as const;
    const { stdout, stderr } = formatReleasePlan(plan);
    const [, patch = ''] =
      /^kubectl patch pod a --namespace shop --subresource status --patch '(.*)'$/m.exec(stdout) ?? [];
    expect(JSON.parse(patch)).toEqual({
      metadata: { uid: 'uid-100', resourceVersion: '101' },
      status: {
        conditions: [
          {
            ...{ type: gateType, status: 'True', reason: 'Released' },
            message: 'vipnat services release-gates opened the gate.',
            lastTransitionTime: '2027-01-15T08:00:00Z',
          },
        ],
      },
    });
    expect(stderr).toMatch(/1 pod waits for a gate of vipnat. To open the gates, add --yes\n/);
    expect(stderr).toMatch(/the policy vipnat-gates still gives new pods the gate/);
    expect(stderr).toMatch(/the webhook vipnat-webhook still gives new pods the gate/);
    expect(stderr).toMatch(/new pods wait too/);
    expect(stderr).toMatch(/c1 leads, and opens gates itself/);
    expect(formatReleasePlan({ ...plan, pods: [], leader: null, policy: 'gone', webhook: 'gone' })).toEqual({
      stdout: '',
      stderr: 'no pod waits for a gate of vipnat\n',
    });
    expect(JSON.parse(formatReleaseJson(plan, null))).toMatchObject({
      dryRun: true,
      pods: [{ pod: 'shop/a', gates: [gateType], outcome: 'waiting' }],
    });
  });
});

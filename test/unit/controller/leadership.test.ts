/** A term of a controller, against an API on a local socket. What steps are, engine.test.ts has. */
import { useCertificates, accessByVip, eventually } from '../../support/api/api-world.ts';
import { KubeApi } from '../../support/kube-api/kube-api.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { Leadership } from '../../../controller/leadership.ts';
import { loadDriver } from '../../../devices/drivers.ts';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { controllerQuestions } from '../../support/kube-api/service-questions.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import { ApiRoute } from '../../../lib/kubernetes/route.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { vips } from '../../support/network/layout.ts';
import type { ObjectClient } from '../../../lib/kubernetes/writes.ts';
import { toGateTypes } from '../../../lib/api/endpoints.ts';
import { TokenQueue } from '../../../lib/queue.ts';
import { earlyServiceLabel } from '../../../lib/api/vipnat.ts';

const certificates = useCertificates();

let api: KubeApi;
let clock: FakeClock;
let term: Leadership;
let writes: string[];
let told: string[];
/** Until this is resolved, writes are under way. */
let answer: Promise<void>;
/** How long a write may still take: 0 where this controller does not lead. */
let writeMs: number;

beforeEach(async () => {
  api = await KubeApi.start({ pair: certificates().serving('m1'), questions: controllerQuestions });
  api.allowsAll = true;
  api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }]));
  [clock, writes, told, answer, writeMs] = [new FakeClock(), [], [], Promise.resolve(), 4000];
  term = createTerm();
});

afterEach(async () => {
  const stopped = term.stop();
  await clock.advance(10_000);
  await stopped;
  await api.stop();
});

function createTerm(): Leadership {
  const route = new ApiRoute(
    () => Promise.resolve(accessByVip(certificates().authority)),
    [toEndpoint(`${vips.ipv4}:6443`)],
  );
  route.setServers({ endpoints: [toEndpoint(`127.0.0.1:${api.port}`)], localAddresses: new Set() });
  const client: ObjectClient = {
    read: () => Promise.resolve({ outcome: 'gone' }),
    write: async ({ method, path }) => {
      writes.push(`${method} ${path}`);
      await answer;
      return { outcome: 'taken', detail: '', version: '900' };
    },
  };
  return new Leadership({
    ...{ route, client, clock, random: () => 0 },
    settings: { isDefaultClass: false, gateTypes: toGateTypes([]) },
    ...{ namespace: 'vipnat-system', electionLease: 'vipnat-controller' },
    apiVips: [],
    pace: new TokenQueue({ capacity: 20, refillMs: 50 }, clock),
    writeMs: () => writeMs,
    findDriver: loadDriver,
    onBegun: () => told.push('begun'),
    onLost: (kind, { code }) => told.push(`lost ${kind} ${code}`),
    onFollowed: (kind) => told.push(`followed ${kind}`),
    onUnreadable: (kind, { key }) => told.push(`cannot read ${kind} ${key}`),
    onWritten: () => undefined,
    onDrained: () => undefined,
    onConflict: () => undefined,
    onFailed: () => undefined,
    onError: (_, error) => {
      throw error;
    },
  });
}

const pass = async (what: string, isSo: () => boolean) => {
  await eventually(what, () => {
    void clock.advance(50);
    return isSo();
  });
};

test.each(['Service', 'VirtualIP', 'AddressPool', 'Node', 'Lease', 'Namespace'] as const)(
  'writes nothing before all kinds were listed, and names the kind that is missing: %s',
  async (missing) => {
    api.forbids = missing;
    term.start();
    await pass('it is told', () => told.includes(`lost ${missing} API_FORBIDDEN`));
    await clock.advance(10_000);
    expect({ hasBegun: term.hasBegun, writes }).toEqual({ hasBegun: false, writes: [] });
    const listLost = () => [...term.kinds].flatMap(([kind, isFollowed]) => (isFollowed ? [] : [kind]));
    expect(listLost()).toEqual([missing]);
    api.forbids = null;
    await pass('it writes', () => writes.length > 0);
    await pass('it is followed', () => listLost().length === 0);
    expect(told.filter((one) => one === 'begun')).toEqual(['begun']);
    expect(writes).toEqual(['PATCH /api/v1/namespaces/default/services/web']);
  },
);

test('one odd Service stops nobody: a condition of others may say anything, and what cannot be read is left out', async () => {
  const conditions = [{ type: 'example.com/Synced', status: '' }];
  api.store.put('Service', { ...makeLoadBalancer('foreign', [{ port: 80 }]), status: { conditions } });
  api.store.put('Service', makeLoadBalancer('odd', [{ port: 80 }], { spec: { externalIPs: [7] } }));
  term.start();
  await pass('it writes', () => writes.length > 0);
  expect([...term.view.services.keys()].sort()).toEqual(['default/foreign', 'default/web']);
  expect(told).toContain('cannot read Service default/odd');
  expect(term.unreadable).toEqual([{ kind: 'Service', object: 'default/odd' }]);
  // As an API before 1.33 has none.
  expect(api.questions.some((question) => question.includes('servicecidrs'))).toBe(true);
});

test('that no longer hears of its own Lease, and leads for a moment more, leaves the server with all its watches: nothing is listed again', async () => {
  const metadata = { name: 'vipnat-controller', namespace: 'vipnat-system', uid: 'lease' };
  api.store.put('Lease', { metadata, spec: {} });
  term.start();
  await pass('all kinds are watched', () => term.hasBegun && api.watches === 7);
  await clock.advance(1500);
  api.freezeWatches();
  api.store.put('Service', makeLoadBalancer('late', [{ port: 80 }]));
  const asked = api.questions.length;
  writeMs = 0;
  await clock.advance(20_000);
  expect(api.questions).toHaveLength(asked);
  writeMs = 1;
  const frozenAt = clock.now();
  await pass('it hears of what came', () => term.view.services.has('default/late'));
  expect(clock.now() - frozenAt).toBeLessThan(20_000);
  expect(api.questions.slice(asked).filter((question) => !question.includes('watch=true'))).toEqual([]);
});

test('takes steps of Services while pods cannot be listed, and steps of gates as soon as they are', async () => {
  const selector = { app: 'web' };
  api.store.put('Service', makeLoadBalancer('gated', [{ port: 80 }], { spec: { selector } }));
  const metadata = { name: 'p', namespace: 'default', uid: 'u', labels: selector };
  const readinessGates = [{ conditionType: 'vipnat.io/load-balancer-ready' }];
  const conditions = [{ type: 'ContainersReady', status: 'True' }];
  const status = { podIP: '10.1.0.5', podIPs: [{ ip: '10.1.0.5' }], conditions };
  const spec = { readinessGates, containers: [], nodeName: 'w1' };
  api.store.put('Node', { metadata: { name: 'w1', uid: 'w1' } });
  api.store.put('Pod', { metadata, spec, status });
  const alone = { ...metadata, name: 'alone', uid: 'v', labels: {} };
  api.store.put('Pod', { metadata: alone, spec, status });
  api.forbids = 'Pod';
  term.start();
  await pass('it is told', () => told.includes('lost Pod API_FORBIDDEN'));
  await pass('it writes', () => writes.length > 1);
  expect(writes.filter((write) => !write.endsWith('services/web') && !write.endsWith('gated'))).toEqual([]);
  api.forbids = null;
  const slice = 'POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
  await pass('gates are seen', () => writes.includes(slice));
  expect(writes).toContain('PATCH /api/v1/namespaces/default/pods/alone/status');
});

test('with the rights of a release without gates serves Services, and says what it cannot follow by names of their own', async () => {
  api.forbids = 'Pod';
  api.forbiddenLabel = earlyServiceLabel;
  term.start();
  const lost = ['lost Pod API_FORBIDDEN', 'lost early EndpointSlice API_FORBIDDEN'];
  await pass('it is told', () => lost.every((one) => told.includes(one)));
  await pass('apiservers are followed', () => told.includes('followed EndpointSlice'));
  expect([...new Set(told.filter((one) => one.startsWith('lost ')))].sort()).toEqual(lost.sort());
  expect(told.filter((one) => one === 'followed Pod' || one.startsWith('followed early'))).toEqual([]);
  expect(writes).toEqual(['PATCH /api/v1/namespaces/default/services/web']);
});

test('that stops ends with its last write, follows nothing more and takes no further step', async () => {
  let release: () => void = () => undefined;
  answer = new Promise((resolve) => (release = resolve));
  term.start();
  await pass('it writes', () => writes.length > 0);
  let hasEnded = false;
  const stopped = term.stop().then(() => (hasEnded = true));
  await clock.advance(2000);
  expect(hasEnded).toBe(false);
  release();
  await pass('it has ended', () => hasEnded);
  await stopped;
  await eventually('nothing is watched', () => api.watches === 0);
  api.store.put('Service', makeLoadBalancer('late', [{ port: 80 }]));
  await clock.advance(60_000);
  expect([writes.length, clock.pending]).toEqual([1, 0]);
});

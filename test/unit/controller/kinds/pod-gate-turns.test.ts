/** Gates and their EndpointSlices, turn after turn: the API takes what is written, and nodes report. */
import { gatedSelector, makeEarlyReport } from '../../../support/fakes/gated-pods.ts';
import {
  nowMs,
  makePod,
  makeNode,
  makePool,
  makeService,
  makeVirtualIp,
  makeCache,
  makeEarlySlice,
} from '../../../support/fakes/service-objects.ts';
import { afterEach, test, expect } from '@jest/globals';
import { Engine } from '../../../../controller/engine.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { gateKinds } from '../../../../controller/leadership.ts';
import { TokenQueue } from '../../../../lib/queue.ts';
import type { ObjectWrite, WriteAnswer } from '../../../../lib/kubernetes/writes.ts';
import { timeoutMs } from '../../../../controller/kinds/pod-gate.ts';
import type { EarlySlice } from '../../../../lib/api/endpoints.ts';
import type { NodeReport } from '../../../../lib/api/node.ts';
import type { Step } from '../../../../controller/step.ts';
import type { Objects } from '../../../../controller/cache/known.ts';

const gateType = 'vipnat.io/load-balancer-ready';

class GateWorld {
  readonly clock = new FakeClock(new Date(nowMs));
  /** Of events. */
  readonly messages: string[] = [];
  /** Pods to why their gates opened. */
  readonly reasons: Record<string, string> = {};
  /** Of gates. */
  turns = 0;
  version = 50;
  refusal: WriteAnswer | null = null;
  readonly #cache;
  readonly #engine;

  constructor(policy = 'Cluster') {
    const spec = { selector: gatedSelector, externalTrafficPolicy: policy };
    this.#cache = makeCache({
      services: [makeService('apps/web', { spec })],
      virtualIps: [makeVirtualIp('10.0.9.10', ['apps/web'])],
      pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.20'] })],
      nodes: [makeNode('w1'), makeNode('w2'), makeNode('w3')],
      reports: [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '50')],
    });
    const [slices, gates] = gateKinds;
    if (slices === undefined || gates === undefined) throw new TypeError('kinds are missing');
    const counted: typeof gates = {
      ...gates,
      next: (key, view) => {
        this.turns += 1;
        return gates.next(key, view);
      },
    };
    this.#engine = new Engine({
      ...{ clock: this.clock, random: () => 0.5, writeMs: () => 4000, cache: this.#cache },
      kinds: [slices, counted],
      client: {
        write: (write) => Promise.resolve(this.#write(write)),
        read: () => Promise.resolve({ outcome: 'gone' }),
      },
      pace: new TokenQueue({ capacity: 20, refillMs: 50 }, this.clock),
      onWritten: (_, event) => this.messages.push(...(event === null ? [] : [event.message])),
      ...{ onFailed: () => undefined, onConflict: () => undefined, onBehind: () => undefined },
      onError: (_, error) => {
        throw error;
      },
    });
    this.#engine.begin();
  }

  /** A pod whose containers are ready, on a node; another one than before where it is added again. */
  add(name: string, node = 'w1', at = Object.keys(this.reasons).length): this {
    const metadata = { uid: `${name} ${at}` };
    const podIP = `10.1.${at >> 8}.${(at & 255) + 1}`;
    const conditions = [{ type: 'ContainersReady', status: 'True' }];
    const status = { podIP, podIPs: [{ ip: podIP }], conditions };
    this.reasons[name] = 'wait';
    return this.put(
      'pods',
      `apps/${name}`,
      makePod(`apps/${name}`, { metadata, spec: { nodeName: node }, status }),
    );
  }

  put<S extends keyof Objects>(
    source: S,
    key: string,
    after: Objects[S] | null,
    object: string | null = null,
  ): this {
    this.#engine.enqueue(this.#cache.take(source, { key, after }), object);
    return this;
  }

  /** A node reports the newest version, unless another one is given. */
  async report(node: string, parts: Partial<NodeReport> = {}, version = this.version): Promise<void> {
    const report = { ...makeEarlyReport(node, String(version)), ...parts };
    this.#engine.enqueue(this.#cache.takeReport(node, report), null);
    await this.clock.advance(1000);
  }

  /** Addresses that early EndpointSlices call ready. */
  get early(): string[] {
    const slices = [...this.#cache.view(nowMs).earlySlices.values()];
    const all = slices.flatMap(({ endpoints }) => endpoints ?? []);
    return all.flatMap(({ conditions, addresses }) => (conditions?.ready === true ? addresses : []));
  }

  stop(): Promise<void> {
    return this.#engine.stop();
  }

  #write({ method, path, body }: ObjectWrite): WriteAnswer {
    const parts = path.split('/');
    if (path.includes('/pods/')) return this.#open(parts[6] ?? '', body as never);
    if (this.refusal !== null) return this.refusal;
    const { metadata } = body as EarlySlice;
    const key = `apps/${method === 'POST' ? metadata.name : (parts.at(-1) ?? '')}`;
    const version = String((this.version += 1));
    const after = method === 'DELETE' ? null : this.#change(key, body, version);
    this.put('earlySlices', key, after, `EndpointSlice/${key}`);
    return { outcome: 'taken', detail: '', version: method === 'DELETE' ? null : version };
  }

  #change(key: string, body: unknown, resourceVersion: string): EarlySlice {
    const known = this.#cache.view(nowMs).earlySlices.get(key);
    if (known === undefined)
      return makeEarlySlice({ does: 'write', write: { key, body } } as unknown as Step, resourceVersion);
    const generation = known.metadata.generation + 1;
    const metadata = { ...known.metadata, resourceVersion, generation };
    return { ...known, endpoints: (body as EarlySlice).endpoints, metadata };
  }

  #open(name: string, { status }: { status: { conditions: { reason: string }[] } }): WriteAnswer {
    this.reasons[name] = status.conditions.map(({ reason }) => reason).join();
    const pod = this.#cache.view(nowMs).pods.get(`apps/${name}`);
    if (pod === undefined) throw new TypeError(`no pod ${name}`);
    const said = { reason: '', message: '', lastTransitionTime: this.clock.date().toISOString() };
    const conditions = [...(pod.status?.conditions ?? []), { type: gateType, status: 'True', ...said }];
    const metadata = { ...pod.metadata, resourceVersion: '31' };
    const after = { ...pod, metadata, status: { ...pod.status, conditions } };
    this.put('pods', `apps/${name}`, after, `Pod/apps/${name}`);
    return { outcome: 'taken', detail: '', version: '31' };
  }
}

let world: GateWorld;

afterEach(() => world.stop());

test('a gate whose slice the API does not take says so, and gets no turn by reports of nodes', async () => {
  world = new GateWorld();
  // Of OpenShift, where the right `endpointslices/restricted` is missing.
  const detail = 'creating EndpointSlice apps/web is answered with 403: address 10.1.0.1 is not allowed';
  world.refusal = { outcome: 'forbidden', detail, version: null };
  for (const name of ['a', 'b']) await world.add(name).report('w1');
  await world.report('w1', { inUse: ['10.0.1.1'] });
  world.turns = 0;
  for (let again = 0; again < 20; again += 1) await world.report('w1', { inUse: [`10.0.0.${again}`] });
  expect(world.turns).toBe(0);
  await world.clock.advance(timeoutMs);
  const clause = `the API does not take the early EndpointSlices of apps/web: ${detail}`;
  const message = `After 3 minutes the gate opens, although ${clause}.`;
  expect([world.reasons, world.messages]).toEqual([{ a: 'Refused', b: 'Refused' }, [message, message]]);
});

test('a node that made a gate time out is not waited for before it has caught up, whatever the date is', async () => {
  world = new GateWorld().add('a');
  await world.clock.advance(1000);
  world.clock.jump(3_600_000);
  await world.report('w1');
  await world.clock.advance(timeoutMs - 4000);
  expect(world.reasons).toEqual({ a: 'wait' });
  world.add('b');
  await world.clock.advance(500);
  await world.report('w1');
  await world.clock.advance(2000);
  // The second one waits for the first one's limit, and pays none of its own.
  expect(world.reasons).toEqual({ a: 'Timeout', b: 'Timeout' });
  expect(world.messages).toEqual([expect.stringMatching(/nodes do not send connections to the pod yet: w2/)]);
  await world.report('w2');
  world.add('c');
  await world.clock.advance(1000);
  await world.report('w1');
  expect(world.reasons['c']).toBe('wait');
  await world.report('w2');
  expect(world.reasons['c']).toBe('LBHealthy');
});

test('a pod that has the name of another one, which nobody saw go, waits for its own time', async () => {
  world = new GateWorld().add('a');
  await world.clock.advance(timeoutMs - 2000);
  world.add('a');
  await world.clock.advance(timeoutMs - 1000);
  expect(world.reasons['a']).toBe('wait');
  await world.clock.advance(2000);
  expect(world.reasons['a']).toBe('Timeout');
});

test('with policy Local a pod is given to its own node first, and its gate waits for that one, too', async () => {
  world = new GateWorld('Local').put(
    'nodes',
    'w3',
    makeNode('w3', { 'node.kubernetes.io/exclude-from-external-load-balancers': '' }),
  );
  await world.report('w3');
  world.add('a', 'w3');
  await world.clock.advance(1000);
  for (const node of ['w1', 'w2']) await world.report(node);
  expect([world.early, world.reasons['a']]).toEqual([[], 'wait']);
  await world.report('w3');
  expect([world.early, world.reasons['a']]).toEqual([['10.1.0.1'], 'wait']);
  for (const node of ['w1', 'w2']) await world.report(node);
  expect(world.reasons['a']).toBe('LBHealthy');
});

test.each<[string, Partial<NodeReport> | null, string, number]>([
  ['has no balancer', null, 'NoLivingNode', 40],
  ['is kube-proxy’s', { mode: 'kube-proxy' }, 'KubeProxy', 1],
  ['leaves the Service to kube-proxy', { left: { 'apps/web': 'why' } }, 'KubeProxy', 1],
  ['knows no early EndpointSlices', { programmed: { endpointslices: '9' } }, 'NotFollowed', 1],
])('with Local a pod whose node %s is never early, and its gate opens', async (_, parts, reason, seconds) => {
  world = new GateWorld('Local');
  if (parts !== null) await world.report('w3', parts);
  world.add('a', 'w3');
  await world.clock.advance(seconds * 1000 - 500);
  if (seconds > 1) expect(world.reasons['a']).toBe('wait');
  await world.clock.advance(1000);
  for (const node of ['w1', 'w2']) await world.report(node);
  expect([world.early, world.reasons['a']]).toEqual([[], reason]);
});

test('a report gives those gates a turn that it releases, and no other one', async () => {
  world = new GateWorld();
  for (let at = 0; at < 200; at += 1) world.add(`p${at}`);
  await world.clock.advance(1000);
  const first = world.version;
  world.add('last');
  await world.clock.advance(1000);
  await world.report('w1');
  world.turns = 0;
  for (let again = 0; again < 20; again += 1) await world.report('w1', { inUse: [`10.0.0.${again}`] });
  expect(world.turns).toBe(0);
  await world.report('w2', {}, first);
  await world.clock.advance(20_000);
  expect(Object.values(world.reasons).filter((reason) => reason === 'wait')).toHaveLength(1);
  // Each has a turn that opens it, one after it, and one for each of the informer's words.
  expect(world.turns).toBeLessThan(200 * 4);
});

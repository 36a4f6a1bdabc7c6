/** What people do, and pods. Each answers a sentence about it, or null where it could not be done. */
import type { World } from './world.ts';
import { gateType } from '../../../../lib/api/vipnat.ts';
import { otherGate, foreignGate, isTrue } from '../controller/pod-facts.ts';
import { done, ourClass } from '../controller/cluster.ts';

export type Act = (world: World) => string | null;

const serviceKeys = ['apps/a', 'apps/b', 'infra/a'];
const podKeys = ['p0', 'p1', 'p2', 'p3', 'p4', 'p5']
  .map((name) => `apps/${name}`)
  .concat('infra/p0', 'infra/p1', 'infra/p2');
const usual = [gateType];
const gateLists = [usual, usual, usual, [otherGate], [gateType, otherGate], [gateType, foreignGate], [], []];
const apps = ['one', 'one', 'two'];
const weights = [null, null, null, null, '0', '1', '3', '10'];
const durations = [null, null, '1s', '5s'];

/** Until the pod is deleted, or nobody evicts it any more. */
export const evicted = 'DisruptionTarget';

/** By their names. They need the API. */
export const peopleDeeds: Readonly<Record<string, Act>> = {
  'creates a Service': (world) => createService(world, world.random.pick(serviceKeys)),
  'deletes a Service': (world) =>
    ofAny(world, 'Service', (key) =>
      world.random.chance(50) ? null : done(world.api.objects.remove('Service', key), key),
    ),
  'changes a selector': (world) => {
    const selector = { app: world.random.pick(apps) };
    return ofAny(world, 'Service', (key) => patch(world, 'Service', key, { spec: { selector } }));
  },
  'changes a type': (world) => {
    const spec = world.random.chance(70) ? ourClass : { type: 'ClusterIP', loadBalancerClass: null };
    return ofAny(world, 'Service', (key) => patch(world, 'Service', key, { spec }));
  },
  'changes durations': (world) =>
    ofAny(world, 'Service', (key) =>
      patch(world, 'Service', key, { metadata: { annotations: drawDurations(world) } }),
    ),
  'creates a pod': createPod,
  'creates another pod': createPod,
  'creates a third pod': createPod,
  'has a container ready': (world) => setReady(world, true),
  'has containers ready': (world) => {
    const keys = podKeys.filter((key) => world.random.chance(70) && world.kubernetes.setReady(key, true));
    return keys.length === 0 ? null : keys.join();
  },
  'has more containers ready': (world) => setReady(world, true),
  'has a container fail': (world) => setReady(world, false),
  "opens another's gate": (world) => {
    const key = world.random.pick(podKeys);
    return world.kubernetes.setCondition(key, foreignGate, true) ? key : null;
  },
  'deletes a pod': (world) => ofAny(world, 'Pod', (key) => done(world.api.objects.remove('Pod', key), key)),
  'is about to evict a pod': (world) => {
    const key = world.random.pick(podKeys);
    return world.kubernetes.setCondition(key, evicted, true) ? key : null;
  },
  'calls evictions off': (world) => {
    const pods = [...world.api.objects.list('Pod')].filter(([, pod]) => isTrue(pod, evicted));
    const keys = pods.flatMap(([key]) => (world.kubernetes.setCondition(key, evicted, false) ? [key] : []));
    return keys.length === 0 ? null : keys.join();
  },
  'changes a weight': (world) => {
    const key = pickOf(world, 'Pod');
    const annotations = { 'vipnat.io/weight': world.random.pick(weights) };
    return key === null ? null : patch(world, 'Pod', key, { metadata: { annotations } });
  },
  'rolls out': rollOut,
  'rolls out again': rollOut,
};

/** Also for the beginning of a walk. */
export function createService(world: World, key: string): string | null {
  const spec = {
    ...ourClass,
    ...{ ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack', externalTrafficPolicy: 'Cluster' },
    ports: [{ protocol: 'TCP', port: 80, targetPort: world.random.pick(['web', 8080]) }],
    selector: { app: world.random.pick(apps) },
  };
  const annotations = Object.fromEntries(
    Object.entries(drawDurations(world)).filter(([, text]) => text !== null),
  );
  return done(
    world.api.objects.create('Service', key, { metadata: { annotations }, spec }),
    `${key} ${JSON.stringify([spec.selector, annotations])}`,
  );
}

function drawDurations({ random }: World): Record<string, string | null> {
  return {
    'vipnat.io/drain-timeout': random.pick(durations),
    'vipnat.io/slow-start': random.chance(25) ? '10s' : null,
  };
}

function patch({ api }: World, kind: 'Service' | 'Pod', key: string, change: Record<string, unknown>) {
  return done(api.objects.patch(kind, key, change), `${key} ${JSON.stringify(change)}`);
}

function createPod(world: World): string | null {
  const { random, api, machines } = world;
  const free = podKeys.filter((key) => !api.objects.list('Pod').has(key));
  if (free.length === 0) return null;
  const key = random.pick(free);
  const weight = random.pick(weights);
  const gates = random.pick(gateLists);
  const annotations = weight === null ? {} : { 'vipnat.io/weight': weight };
  const metadata = { labels: { app: random.pick(apps) }, annotations, finalizers: ['kubelet'] };
  const spec = {
    readinessGates: gates.map((conditionType) => ({ conditionType })),
    containers: [{ ports: [{ name: 'web', containerPort: 8080 }] }],
    nodeName: random.pick(machines).name,
  };
  return done(
    api.objects.create('Pod', key, { metadata, spec }),
    `${key} on ${spec.nodeName} ${JSON.stringify([metadata.labels, annotations, gates])}`,
  );
}

function setReady(world: World, isReady: boolean): string | null {
  const key = world.random.pick(podKeys);
  return world.kubernetes.setReady(key, isReady) ? key : null;
}

/** A pod comes, and one that is ready goes as soon as it is ready. */
function rollOut(world: World): string | null {
  const old = [...world.api.objects.list('Pod')].filter(
    ([, pod]) => isTrue(pod, 'Ready') && pod.metadata.deletionTimestamp === undefined,
  );
  const made = createPod(world);
  const [key = ''] = made?.split(' ') ?? [];
  if (made === null || old.length === 0) return made;
  const [former] = world.random.pick(old);
  const look = (left: number): void => {
    world.kubernetes.setReady(key, true);
    const pod = world.api.objects.list('Pod').get(key);
    const isUp = world.api.delayMs !== null;
    if (isUp && pod !== undefined && isTrue(pod, 'Ready')) world.api.objects.remove('Pod', former);
    else if (left > 0) world.clock.schedule(1000, look.bind(null, left - 1));
  };
  world.clock.schedule(1500, look.bind(null, 30));
  return `${made} for ${former}`;
}

function ofAny(world: World, kind: 'Service' | 'Pod', act: (key: string) => string | null): string | null {
  const key = pickOf(world, kind);
  return key === null ? null : act(key);
}

function pickOf(world: World, kind: 'Service' | 'Pod'): string | null {
  const keys = [...world.api.objects.list(kind).keys()];
  return keys.length === 0 ? null : world.random.pick(keys);
}

/** What Deployments and kubelets do to pods. Each answers a sentence about it, or null when it could not be done. */
import { type Cluster, done, ourClass } from './cluster.ts';
import type { Random } from '../../../support/random/random.ts';
import { gateType } from '../../../../lib/api/vipnat.ts';
import { otherGate, foreignGate, findOwner, listConditions } from './pod-facts.ts';
import { busy } from './busy.ts';
import { mayBeOurs, listIps } from './invariants.ts';

type Deed = (cluster: Cluster, random: Random) => string | null;

const keys = ['apps/p0', 'apps/p1', 'apps/p2', 'apps/p3', 'infra/p4', 'infra/p5'];
const gateLists = [[gateType], [gateType], [otherGate], [gateType, otherGate], [gateType, foreignGate], []];

/** A pool with addresses of both families, and a Service that selects pods, so that gates have something to wait for. */
export function prepare(cluster: Cluster): void {
  const seats = { interface: 'auto', seats: 2, advert: '300ms', reuseAfter: '10s' };
  const addresses = ['10.0.9.10-10.0.9.14', 'fd00::10-fd00::12'];
  cluster.api.create('AddressPool', 'first', {
    spec: { ...seats, autoAssign: true, priority: 0, addresses },
  });
  const families = { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'PreferDualStack' };
  const ports = [{ protocol: 'TCP', port: 80, targetPort: 'web' }];
  const selector = { app: 'one' };
  const spec = { ...ourClass, ...families, ports, selector, externalTrafficPolicy: 'Cluster' };
  cluster.api.create('Service', 'apps/a', { metadata: {}, spec });
}

export const podDeeds: Readonly<Record<string, Deed>> = {
  'creates a pod': (cluster, random) => {
    const key = random.pick(keys);
    const draft = { gates: random.pick(gateLists), app: random.pick(['one', 'one', 'two']) };
    if (!create(cluster, random, key, draft)) return null;
    if (random.chance(70)) giveAddresses(cluster, key);
    return key;
  },
  'gives a pod its addresses': (cluster, random) => {
    const key = random.pick(keys);
    return giveAddresses(cluster, key) ? key : null;
  },
  'replaces a pod': replacePod,
  'replaces a pod, as rollouts do': replacePod,
  'makes containers ready': setAny('ContainersReady', 'True'),
  'makes containers ready, too': setAny('ContainersReady', 'True'),
  'makes containers ready, as most do': setAny('ContainersReady', 'True'),
  'has a container fail': setAny('ContainersReady', 'False'),
  "opens another's gate": setAny(foreignGate, 'True'),
  'deletes a pod': (cluster, random) => {
    const key = random.pick(keys);
    return done(cluster.api.remove('Pod', key), key);
  },
  'ends a pod': (cluster, random) => {
    const key = random.pick(keys);
    if (cluster.api.list('Pod').get(key)?.metadata.deletionTimestamp === undefined) return null;
    return done(cluster.api.patch('Pod', key, { metadata: { finalizers: [] } }), key);
  },
  'collects garbage': (cluster, random) => {
    const slices = [...cluster.api.list('EndpointSlice')];
    const orphans = slices.filter(([, slice]) => findOwner(cluster, slice) === null);
    if (orphans.length === 0) return null;
    const [key] = random.pick(orphans);
    return done(cluster.api.remove('EndpointSlice', key), key);
  },
};

/** A pod of a Service with an address gives way to one of the same name, which gets ready while some nodes are behind. */
function replacePod(cluster: Cluster, random: Random): string | null {
  const awake = cluster.controllers.filter(({ isHeldUp }) => !isHeldUp);
  const given = listSelecting(cluster);
  if (given.length === 0) return null;
  const { service, namespace, app } = random.pick(given);
  const key = random.pick(keys.filter((each) => each.startsWith(`${namespace}/`)));
  cluster.api.remove('Pod', key);
  cluster.api.patch('Pod', key, { metadata: { finalizers: [] } });
  create(cluster, random, key, { gates: random.pick(gateLists.slice(0, 4)), app });
  giveAddresses(cluster, key);
  const behind = cluster.nodes.filter(() => random.chance(25));
  const ahead = cluster.nodes.filter((node) => !behind.includes(node));
  busy(cluster, awake, random.pick([0, 1, 4]), ahead);
  setCondition(cluster, key, ['ContainersReady', 'True']);
  busy(cluster, awake, random.pick([0, 1, 6]), ahead);
  busy(cluster, awake, random.pick([0, 2, 4]));
  return `${key} of ${service}, ${behind.length} nodes are behind`;
}

function listSelecting({ api }: Cluster): { service: string; namespace: string; app: string }[] {
  return [...api.list('Service')].flatMap(([key, service]) => {
    const { app } = (service.spec?.['selector'] ?? {}) as { app?: string };
    const isGiven = mayBeOurs(service) && listIps(service).length > 0;
    const [namespace = ''] = key.split('/');
    return app !== undefined && isGiven ? [{ service: key, namespace, app }] : [];
  });
}

function create(
  cluster: Cluster,
  random: Random,
  key: string,
  { gates, app }: { readonly gates: readonly string[]; readonly app: string },
): boolean {
  const isWeighted = gates.length === 0 || random.chance(20);
  const annotations = isWeighted ? { 'vipnat.io/weight': random.pick(['0', '3', '256', 'x']) } : {};
  const metadata = { labels: { app }, annotations, finalizers: ['kubelet'] };
  const containers = [{ ports: [{ name: 'web', containerPort: 8080 }] }];
  const readinessGates = gates.map((conditionType) => ({ conditionType }));
  const spec = { readinessGates, containers, nodeName: random.pick(cluster.nodes).name };
  return cluster.api.create('Pod', key, { metadata, spec }) === 201;
}

function giveAddresses(cluster: Cluster, key: string): boolean {
  const index = keys.indexOf(key) + 1;
  const podIPs = [{ ip: `10.1.0.${index}` }, { ip: `fd01::${index}` }];
  return cluster.api.patch('Pod', key, { status: { podIP: podIPs[0]?.ip, podIPs } }, true) === 200;
}

function setAny(type: string, status: string): Deed {
  return (cluster, random) => setCondition(cluster, random.pick(keys), [type, status]);
}

function setCondition(
  cluster: Cluster,
  key: string,
  [type, status]: readonly [type: string, status: string],
): string | null {
  const pod = cluster.api.list('Pod').get(key);
  if (pod?.status?.['podIP'] === undefined) return null;
  const lastTransitionTime = new Date(cluster.nowMs).toISOString();
  const others = listConditions(pod.status).filter((one) => one.type !== type);
  const conditions = [...others, { type, status, lastTransitionTime }];
  return done(cluster.api.patch('Pod', key, { status: { conditions } }, true), `${key}: ${type} ${status}`);
}

/** What people and other programs do to the objects. Each answers a sentence about it, or null when it could not be done. */
import { type Cluster, done, ourClass } from './cluster.ts';
import type { Random } from '../../../support/random/random.ts';
import { busy } from './busy.ts';
import { toggleRewriter } from './rewriter.ts';
import { excludedNodeLabel, finalizer } from '../../../../lib/api/vipnat.ts';
import { listAllUsers } from './invariants.ts';
import { isDeleted } from './pod-facts.ts';

type Deed = (cluster: Cluster, random: Random) => string | null;

const poolNames = ['first', 'second'];

/** Small, so that Services have to fight for them. The first address of the last one is a node's. */
const rangeLists = [
  ['10.0.9.10-10.0.9.12'],
  ['10.0.9.10-10.0.9.11', 'fd00::10-fd00::11'],
  ['10.0.9.12-10.0.9.14', 'fd00::12'],
  ['fd00::10/127'],
  ['10.0.9.10-10.0.9.12', 'fd00::10-fd00::12'],
  ['10.0.9.10-10.0.9.13', 'fd00::10-fd00::12'],
  ['10.0.9.3-10.0.9.10'],
];

const requestable = ['10.0.9.10', '10.0.9.12', 'fd00::10', '10.0.9.11,fd00::11', '192.0.2.1', 'nonsense'];

const familyFields = [
  { ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack' },
  { ipFamilies: ['IPv6'], ipFamilyPolicy: 'SingleStack' },
  { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'PreferDualStack' },
  { ipFamilies: ['IPv6', 'IPv4'], ipFamilyPolicy: 'RequireDualStack' },
];

const portLists = [
  [{ protocol: 'TCP', port: 80 }],
  [{ protocol: 'UDP', port: 80 }],
  [
    { protocol: 'TCP', port: 443 },
    { protocol: 'UDP', port: 53 },
  ],
];

const annotationChoices: readonly Record<string, string | null>[] = [
  { 'vipnat.io/share': 'together' },
  { 'vipnat.io/share': null },
  { 'vipnat.io/pool': 'second' },
  { 'vipnat.io/pool': null },
  { 'vipnat.io/addresses': null },
];

function ofService(act: (cluster: Cluster, random: Random, key: string) => string | null): Deed {
  return (cluster, random) => act(cluster, random, random.pick(cluster.habits.serviceKeys));
}

export const deeds: Readonly<Record<string, Deed>> = {
  'creates a Service': (cluster, random) => {
    const key = random.pick(cluster.habits.serviceKeys);
    const annotations = {
      ...(random.chance(15) ? { 'vipnat.io/addresses': random.pick(requestable) } : {}),
      ...(random.chance(30) ? { 'vipnat.io/share': 'together' } : {}),
    };
    const spec = {
      ...(random.chance(15) ? { type: 'LoadBalancer' } : ourClass),
      ...random.pick(familyFields),
      ports: random.pick(portLists),
      selector: { app: random.pick(['one', 'two']) },
      externalTrafficPolicy: random.pick(['Cluster', 'Cluster', 'Local']),
    };
    return done(cluster.api.create('Service', key, { metadata: { annotations }, spec }), key);
  },
  'deletes a Service': ofService(({ api }, _, key) => done(api.remove('Service', key), key)),
  'makes a Service anew': ofService((cluster, _, key) => {
    const service = cluster.api.list('Service').get(key);
    // Whoever deletes and creates waits for the finalizer, and no longer.
    if (service === undefined || cluster.api.remove('Service', key) !== 200) return null;
    const { metadata, spec = {} } = service;
    cluster.api.create('Service', key, { metadata: { annotations: metadata.annotations }, spec });
    return key;
  }),
  'changes the type': ofService((cluster, _, key) => {
    const service = cluster.api.list('Service').get(key);
    const spec = service?.spec?.['type'] === 'LoadBalancer' ? { type: 'ClusterIP' } : ourClass;
    return done(cluster.api.patch('Service', key, { spec }), `${key}: ${spec.type}`);
  }),
  'gives a Service to another load balancer': ofService((cluster, _, key) => {
    if (cluster.api.list('Service').get(key)?.spec?.['type'] !== 'ClusterIP') return null;
    cluster.api.patch('Service', key, { spec: { type: 'LoadBalancer', loadBalancerClass: 'other.io/lb' } });
    const isTaken = cluster.api.list('VirtualIP').has('10.0.9.14');
    const ingress = [{ ip: isTaken ? '198.51.100.7' : '10.0.9.14' }];
    cluster.api.patch('Service', key, { status: { loadBalancer: { ingress } } }, true);
    return key;
  }),
  'asks for an address': ofService((cluster, random, key) => {
    const address = random.pick(requestable);
    const metadata = { annotations: { 'vipnat.io/addresses': address } };
    return done(cluster.api.patch('Service', key, { metadata }), `${key}: ${address}`);
  }),
  annotates: ofService((cluster, random, key) => {
    const metadata = { annotations: random.pick(annotationChoices) };
    return done(cluster.api.patch('Service', key, { metadata }), `${key}: ${JSON.stringify(metadata)}`);
  }),
  'changes a Service': ofService((cluster, random, key) => {
    const spec = random.pick<Record<string, unknown>>([
      random.pick(familyFields),
      { ports: random.pick(portLists) },
      { externalTrafficPolicy: random.pick(['Cluster', 'Local']) },
    ]);
    return done(cluster.api.patch('Service', key, { spec }), `${key}: ${JSON.stringify(spec)}`);
  }),
  'makes a pool': (cluster, random) => {
    const name = random.pick(poolNames);
    const spec = drawPool(random);
    return done(cluster.api.create('AddressPool', name, { spec }), `${name}: ${JSON.stringify(spec)}`);
  },
  'changes a pool': (cluster, random) => {
    const name = random.pick(poolNames);
    const spec = drawPool(random);
    return done(cluster.api.patch('AddressPool', name, { spec }), `${name}: ${JSON.stringify(spec)}`);
  },
  'deletes a pool': (cluster, random) => {
    if (random.chance(60)) return null;
    const name = random.pick(poolNames);
    return done(cluster.api.remove('AddressPool', name), name);
  },
  'deletes a Node of a machine that is off': (cluster, random) => {
    const node = random.pick(cluster.nodes);
    // Two stay.
    if (cluster.api.list('Node').size < cluster.nodes.length) return null;
    cluster.remove(node);
    return node.name;
  },
  'starts a machine': (cluster) => {
    const node = cluster.nodes.find(({ name }) => !cluster.api.list('Node').has(name));
    if (node === undefined) return null;
    cluster.register(node);
    node.start();
    return node.name;
  },
  drains: (cluster, random) => {
    const name = random.pick(poolNames);
    const drained = random.pick([null, 'node-1', 'node-1,node-2', 'node-2/0', 'node-1,node-2,node-3']);
    const metadata = { annotations: { 'vipnat.io/drained': drained } };
    return done(cluster.api.patch('AddressPool', name, { metadata }), `${name}: ${drained ?? 'nothing'}`);
  },
  'deletes a VirtualIP by hand': (cluster, random) => {
    const names = [...cluster.api.list('VirtualIP').keys()];
    const name = names.length === 0 ? null : random.pick(names);
    return name !== null && deleteByHand(cluster, name) ? name : null;
  },
  'takes the finalizer from a VirtualIP': (cluster, random) => {
    const virtualIps = [...cluster.api.list('VirtualIP')].filter(([, each]) => !isDeleted(each));
    if (virtualIps.length === 0) return null;
    const [name, { metadata }] = random.pick(virtualIps);
    cluster.unkept.add(metadata.uid);
    cluster.api.patch('VirtualIP', name, { metadata: { finalizers: null } });
    return name;
  },
  'takes back what it gives back': ofService((cluster, random, key) => {
    if (cluster.api.list('Service').get(key)?.spec?.['type'] !== 'LoadBalancer') return null;
    cluster.api.patch('Service', key, { spec: { type: 'ClusterIP' } });
    busy(cluster, cluster.controllers, 1 + random.below(8));
    cluster.api.patch('Service', key, { spec: ourClass });
    return key;
  }),
  'rewrites a status each time, or ends that': toggleRewriter,
  'names an external IP': ofService((cluster, random, key) => {
    const externalIPs = random.pick([null, ['10.0.9.13'], ['10.0.9.13', 'fd00::11']]);
    const what = `${key}: ${externalIPs?.join() ?? 'none'}`;
    return done(cluster.api.patch('Service', key, { spec: { externalIPs } }), what);
  }),
  'labels a node': (cluster, random) => {
    const { name } = random.pick(cluster.nodes);
    const labels = { [excludedNodeLabel]: random.pick(['', null]), zone: random.pick(['z0', 'z1']) };
    const what = `${name}: ${JSON.stringify(labels)}`;
    return done(cluster.api.patch('Node', name, { metadata: { labels } }), what);
  },
  'gives another host an address': (cluster, random) => {
    const address = random.pick(['10.0.9.10', '10.0.9.12', 'fd00::10']);
    if (!cluster.foreignHosts.delete(address)) cluster.foreignHosts.add(address);
    return address;
  },
};

function drawPool(random: Random): Record<string, unknown> {
  return {
    addresses: random.pick(rangeLists),
    priority: random.below(2),
    autoAssign: random.chance(92),
    namespaceSelector: random.chance(15) ? { matchLabels: { team: 'apps' } } : {},
    nodeSelector: random.chance(10) ? { matchLabels: { zone: 'z0' } } : {},
    interface: 'auto',
    seats: 1 + random.below(3),
    advert: '300ms',
    reuseAfter: random.pick(['0s', '10s', '60s']),
  };
}

/** Whether it did: who takes the finalizer from one that Services have, and deletes it then, asks for what follows. */
export function deleteByHand({ api, unkept }: Cluster, name: string): boolean {
  const virtualIp = api.list('VirtualIP').get(name);
  if (virtualIp === undefined) return false;
  const { uid, finalizers } = virtualIp.metadata;
  const isUnkept = unkept.has(uid) && finalizers?.includes(finalizer) !== true;
  return !(isUnkept && listAllUsers(virtualIp).length > 0) && api.remove('VirtualIP', name) === 200;
}

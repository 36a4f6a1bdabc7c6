/** Things that seldom meet by themselves: an address goes from one Service to another while somebody does not know of it. */
import { type Random } from '../../../support/random/random.ts';
import { type Cluster, type Leaders, ourClass } from './cluster.ts';
import { listIps, mayBeOurs, toName } from './invariants.ts';
import { busy } from './busy.ts';
import { deleteByHand } from './people.ts';

type Scene = (cluster: Cluster, random: Random) => string | null;

export const scenes: Readonly<Record<Leaders, Scene>> = { one: passOnBehindNode, two: passOnBehindAny };

function passOnBehindAny(cluster: Cluster, random: Random): string | null {
  return random.pick([passOnBehindNode, passOnBehindLeader])(cluster, random);
}

/** A node is cut off from the API, and serves on. */
function passOnBehindNode(cluster: Cluster, random: Random): string | null {
  const given = pickGiven(cluster, random);
  if (given === null) return null;
  const { key, address } = given;
  const node = random.pick(cluster.nodes);
  node.isConnected = false;
  for (let seconds = 0; seconds < 45; seconds += 5) {
    for (const controller of cluster.controllers) controller.hearAll();
    cluster.pass(5000);
  }
  const detour = random.pick(silentDetours)(cluster, key, address);
  cluster.api.remove('Service', key);
  busy(cluster, cluster.controllers, 1 + random.below(16));
  cluster.pass(random.pick([1000, 20_000, 61_000]));
  const other = askFor(cluster, address, random);
  busy(cluster, cluster.controllers, 1 + random.below(16));
  return `${node.name} is cut off, ${detour}${key} goes, and ${other} asks for ${address}`;
}

/** What a Service does with its address while a node is cut off, before it goes. */
const silentDetours: readonly ((cluster: Cluster, key: string, address: string) => string)[] = [
  () => '',
  (cluster, key) => {
    cluster.api.patch('Service', key, { spec: { type: 'ClusterIP' } });
    busy(cluster, cluster.controllers, 4);
    cluster.api.patch('Service', key, { spec: ourClass });
    busy(cluster, cluster.controllers, 4);
    return 'it takes back what it gives back, ';
  },
  (cluster, _, address) => {
    deleteByHand(cluster, toName(address));
    busy(cluster, cluster.controllers, 4);
    return 'its VirtualIP is deleted by hand, ';
  },
  (cluster, _, address) => {
    for (const controller of cluster.controllers) cluster.kill(controller);
    deleteByHand(cluster, toName(address));
    cluster.lead();
    return 'its VirtualIP is deleted by hand while nobody leads, ';
  },
];

/** A leader is deaf and held up, and then acts first. */
function passOnBehindLeader(cluster: Cluster, random: Random): string | null {
  const given = pickGiven(cluster, random);
  if (given === null) return null;
  while (cluster.controllers.length < 2) cluster.lead();
  const { key, address } = given;
  const late = random.pick(cluster.controllers);
  const others = cluster.controllers.filter((each) => each !== late);
  late.hearAll();
  late.frozen = random.pick(['VirtualIP', 'VirtualIP', 'Service'] as const);
  const { away, back } = random.pick(detours)(cluster, key, address);
  away();
  busy(cluster, others, random.pick([2, 10, 20]));
  cluster.pass(random.pick([0, 0, 16_000]));
  const isPassedOn = random.chance(50);
  const what = isPassedOn ? `${askFor(cluster, address, random)} asks for it` : 'it wants it again';
  if (isPassedOn) busy(cluster, others, 20);
  else back();
  busy(cluster, [late], 4);
  late.frozen = null;
  return `${key} leaves ${address}, ${what}, and one leader is late`;
}

type Detour = (
  cluster: Cluster,
  key: string,
  address: string,
) => { readonly away: () => void; readonly back: () => void };

/** How a Service gives its address up, and wants it again. */
const detours: readonly Detour[] = [
  ({ api }, key) => ({
    away: () => api.patch('Service', key, { spec: { type: 'ClusterIP' } }),
    back: () => api.patch('Service', key, { spec: ourClass }),
  }),
  ({ api }, key, address) => ({
    away: () => api.patch('Service', key, annotate('10.0.9.11,fd00::11')),
    back: () => api.patch('Service', key, annotate(address)),
  }),
  ({ api }, key, address) => ({
    away: () => api.remove('Service', key),
    back: () => api.create('Service', key, toService(address)),
  }),
];

function pickGiven({ api }: Cluster, random: Random): { key: string; address: string } | null {
  const ours = [...api.list('Service')].filter(([, service]) => mayBeOurs(service));
  const given = ours.flatMap(([key, service]) => listIps(service).map((address) => ({ key, address })));
  return given.length === 0 ? null : random.pick(given);
}

function askFor({ api, habits }: Cluster, address: string, random: Random): string {
  const key = random.pick(habits.serviceKeys);
  if (api.create('Service', key, toService(address)) !== 201) api.patch('Service', key, annotate(address));
  return key;
}

function toService(address: string): Record<string, unknown> {
  const ipFamilies = [address.includes(':') ? 'IPv6' : 'IPv4'];
  const ports = [{ protocol: 'TCP', port: 80 }];
  const spec = { ...ourClass, ipFamilies, ipFamilyPolicy: 'SingleStack', ports };
  return { ...annotate(address), spec };
}

function annotate(address: string): { readonly metadata: Record<string, unknown> } {
  return { metadata: { annotations: { 'vipnat.io/addresses': address } } };
}

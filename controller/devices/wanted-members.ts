/** Where a device sends the connections of a Service's port: pods, or the nodes' ports. Pure. */
import { type Address, type Family, parseAddress } from '../../lib/address/address.ts';
import { formatMember, type Member } from '../../lib/devices/driver.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { type Backend, chooseServing, listBackends } from '../../lib/services/endpoints.ts';
import { type Pod } from '../../lib/services/pods.ts';
import { type EndpointSlice, type Service, type ServicePort } from '../../lib/services/services.ts';
import { maxWeight, readPodWeight } from '../../lib/services/weights.ts';
import { type World } from '../cache/world.ts';

/** Members that a device has, as `nameMember` writes them, to since when each drains; null for those that do not. */
export type FormerMembers = ReadonlyMap<string, number | null>;

/** A port, with whose members it is compared. */
export interface MembersQuery {
  readonly service: Service;
  readonly device: LoadBalancerDevice;
  readonly port: ServicePort;
  /** Of the Service. */
  readonly slices: readonly EndpointSlice[];
  readonly family: Family;
  readonly former: FormerMembers;
  /** How long a node's port keeps its open connections after it got its last new one. */
  readonly drainMs: number;
  readonly nowMs: number;
}

/** One member of one listener. */
export function nameMember(protocol: string, port: number, member: Pick<Member, 'address' | 'port'>): string {
  return `${protocol.toLowerCase()} ${port} ${formatMember(member)}`;
}

/**
 * The members of a port, in the order of their names.
 *
 * What the device has and is to get no connections any more stays with weight 0: a pod until it is gone, since its address may be another's
 * then, and a node's port for as long as connections may drain.
 */
export function listMembers(query: MembersQuery, world: World): Member[] {
  const { service, port, slices, family } = query;
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  const { name, protocol } = port;
  const weights = readWeightsOf(key, world);
  const { backends } = listBackends(slices, { family, name, protocol, weights }, new Set());
  const members =
    query.device.spec.targets === 'pods' ? toPods(query, backends) : toNodes(query, backends, world);
  return fitWeights(members).sort((one, other) => (formatMember(one) < formatMember(other) ? -1 : 1));
}

/** Addresses of the Service's pods to weights that are not the usual one. */
function readWeightsOf(key: string, { serviceToPods, pods }: World): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const each of serviceToPods.get(key) ?? []) {
    const pod = pods.get(each);
    const weight = pod === undefined ? null : readPodWeight(pod.metadata.annotations);
    if (pod !== undefined && weight !== null)
      for (const text of listAddresses(pod)) weights.set(text, weight);
  }
  return weights;
}

function listAddresses({ status }: Pod): string[] {
  const texts = status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP];
  return texts.flatMap((text) => parseAddress(text ?? '') ?? []).map(({ text }) => text);
}

function toPods({ port, former }: MembersQuery, backends: readonly Backend[]): Member[] {
  const serving = new Set(chooseServing(backends));
  return backends.flatMap((backend): Member[] => {
    const address = parseAddress(backend.address);
    if (address === null) return [];
    const member = { address, port: backend.port };
    if (serving.has(backend)) return [{ ...member, weight: Math.max(1, backend.weight) }];
    return former.has(nameMember(port.protocol, port.port, member)) ? [{ ...member, weight: 0 }] : [];
  });
}

function toNodes(query: MembersQuery, backends: readonly Backend[], world: World): Member[] {
  const { port, service, family, former, drainMs, nowMs } = query;
  const nodePort = port.nodePort ?? 0;
  const serving = chooseServing(backends);
  const isLocal = service.spec.externalTrafficPolicy === 'Local';
  const weights = new Map<Address, number>();
  for (const node of world.deviceNodes.values()) {
    const address = node.addresses.find((one) => one.family === family);
    if (address === undefined || !node.takesConnections) continue;
    const here = serving.filter((backend) => backend.node === node.metadata.name);
    weights.set(
      address,
      here.reduce((sum, { weight }) => sum + Math.max(1, weight), 0),
    );
  }
  // With the policy Cluster every node reaches every pod, wherever these are.
  const isElsewhere = serving.length > 0 && [...weights.values()].every((weight) => weight === 0);
  if (isElsewhere && !isLocal) for (const address of weights.keys()) weights.set(address, 1);
  const members = [...weights].flatMap(([address, weight]) =>
    weight === 0 ? [] : [{ address, port: nodePort, weight }],
  );
  const known = new Set(members.map((member) => nameMember(port.protocol, port.port, member)));
  return [...members, ...listDraining({ port, former, drainMs, nowMs, family }, known)];
}

/** Members that the device has, and that are to get nothing any more: as long as their connections may go on. */
function listDraining(
  {
    port,
    former,
    drainMs,
    nowMs,
    family,
  }: Pick<MembersQuery, 'port' | 'former' | 'drainMs' | 'nowMs' | 'family'>,
  known: ReadonlySet<string>,
): Member[] {
  const prefix = `${port.protocol.toLowerCase()} ${port.port} `;
  return [...former].flatMap(([name, sinceMs]): Member[] => {
    if (!name.startsWith(prefix) || known.has(name)) return [];
    const member = parseMember(name.slice(prefix.length));
    const isOver = sinceMs !== null && nowMs - sinceMs >= drainMs;
    return member?.address.family !== family || isOver ? [] : [{ ...member, weight: 0 }];
  });
}

/** As `formatMember` writes it. */
function parseMember(text: string): Pick<Member, 'address' | 'port'> | null {
  const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(text) ?? [];
  const address = parseAddress(host);
  return address === null ? null : { address, port: Number(port) };
}

/** The highest weight is what a member can have at most; nobody who gets connections gets none for that. */
function fitWeights(members: readonly Member[]): Member[] {
  const highest = Math.max(0, ...members.map(({ weight }) => weight));
  if (highest <= maxWeight) return [...members];
  return members.map((member) => ({
    ...member,
    weight: member.weight === 0 ? 0 : Math.max(1, Math.round((member.weight * maxWeight) / highest)),
  }));
}

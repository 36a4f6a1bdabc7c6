import {
  type PortBalance,
  type Guard,
  acceptInside,
  toProtocolNumber,
  identifyPort,
  nameEnd,
  type Relay,
  defaultAffinitySeconds,
} from '../services/backends.ts';
import {
  type NftTable,
  emptyTable,
  type NftSet,
  toAddressType,
  type NftChain,
  declareMemory,
} from '../../lib/nft/table.ts';
import {
  mergeTables,
  shared,
  declareGuardMap,
  declareVipMap,
  declareErrorMap,
  nameTtl,
  sentOn,
} from './table.ts';
import { familyToNft } from '../../lib/kernel/port.ts';
import { createHash } from 'node:crypto';
import { usualWeight } from '../../lib/api/endpoints.ts';
import { formatEndpoint } from '../../lib/net.ts';
import { type Weights, hashSlots, fillSlots, shareSlots, hashSeed } from './slots.ts';

/**
 * The part of a family's table that one port of a Service has. `before` has the slots that are kept where they are: those of the
 * table as it is. Pure.
 */
export function renderPort(balance: PortBalance, before: NftTable): NftTable {
  return mergeTables([
    balance.isHere ? renderHere(balance, before) : emptyTable,
    balance.relay === null ? emptyTable : renderRelay(balance, balance.relay),
    balance.guard === undefined ? emptyTable : renderGuard(balance, balance.guard),
  ]);
}

/** Of a Service's addresses: ports that no Service has are nobody's from outside, and not those of programs of the node that holds them. */
function renderGuard({ family, service }: PortBalance, { addresses, uplinks }: Guard): NftTable {
  const [name, named] = [`guard/${service}`, `named/${service}`];
  const elements = new Map([...addresses.keys()].map((address) => [address, `goto ${name}`]));
  const places = [...addresses].flatMap(([address, ports]) => ports.map((port) => `${address} . ${port}`));
  const ports: NftSet = {
    kind: 'set',
    declaration: `type ${toAddressType(family)} . inet_proto . inet_service`,
    elements: new Map(places.map((place) => [place, ''])),
  };
  // A Service that is kube-proxy's is in no map: its ports are not nobody's.
  const accept = `${familyToNft[family]} daddr . meta l4proto . th dport @${named} accept`;
  return {
    sets: new Map([
      [shared.guards, { ...declareGuardMap(family), elements }],
      [named, ports],
    ]),
    chains: new Map([[name, toChain([...acceptInside(uplinks), accept, `goto ${shared.refuse}`])]]),
  };
}

/** What this node sends to endpoints itself. */
function renderHere(balance: PortBalance, before: NftTable): NftTable {
  const keys = balance.addresses.map(
    (address) => `${address} . ${toProtocolNumber(balance)} . ${balance.port}`,
  );
  const toMap = (chain: string): NftSet => {
    return { ...declareVipMap(balance.family), elements: new Map(keys.map((key) => [key, `goto ${chain}`])) };
  };
  const name = `lb/${identifyPort(balance)}`;
  const pieces = [admit(balance), ...connect(balance, before, toMap)];
  return {
    sets: new Map([[shared.vips, toMap(name)], ...pieces.flatMap(({ sets }) => sets)]),
    chains: new Map([
      [name, toChain(pieces.flatMap(({ rules }) => rules))],
      ...pieces.flatMap(({ chains }) => chains),
    ]),
  };
}

/** Where connections go, and which source they get. */
function connect(balance: PortBalance, before: NftTable, toMap: (chain: string) => NftSet): Piece[] {
  if (balance.backends.length === 0) return [{ rules: [`goto ${shared.refuse}`], sets: [], chains: [] }];
  const choice = balance.affinitySeconds === null ? choose(balance, before) : chooseKept(balance, before);
  const { chain, ...source } = giveSource(balance);
  return [choice, { ...source, rules: [], sets: [[shared.translated, toMap(chain)], ...source.sets] }];
}

/** A set's declaration cannot change: another time is another set. The usual one has no name, as versions before had none. */
function nameSeconds(seconds: number | null): string {
  return seconds === null || seconds === defaultAffinitySeconds ? '' : `/${seconds}`;
}

interface Piece {
  readonly rules: readonly string[];
  readonly sets: readonly (readonly [string, NftSet])[];
  readonly chains: readonly (readonly [string, NftChain])[];
}

/** Lists of ranges are long, and each port of a Service has the same one. */
const sourcesToAdmission = new WeakMap<readonly string[], Piece>();

function admit(balance: PortBalance): Piece {
  const { sources } = balance;
  if (sources === null) return { rules: [], sets: [], chains: [] };
  const admission = sourcesToAdmission.get(sources) ?? renderAdmission(balance, sources);
  sourcesToAdmission.set(sources, admission);
  return admission;
}

/** Named by what it holds: a set that is changed in place would keep clients out for a moment that are in both. */
function renderAdmission({ family, service }: PortBalance, sources: readonly string[]): Piece {
  const content = createHash('sha256').update(sources.join()).digest('hex').slice(0, 10);
  const name = `sources/${service}/${content}`;
  const declaration = `type ${toAddressType(family)}; flags interval`;
  const elements = new Map(sources.map((range) => [range, '']));
  return {
    rules: [`${familyToNft[family]} saddr != @${name} drop`],
    sets: [[name, { kind: 'set', declaration, elements }]],
    chains: [],
  };
}

/** One rule for all endpoints. A slot leads straight to one. */
function choose(balance: PortBalance, before: NftTable): Piece {
  const { family } = balance;
  const wanted = new Map(
    balance.backends.map((backend) => [nameEnd(backend), backend.weight ?? usualWeight]),
  );
  const { name, count, set } = declareSlots(balance, {
    wanted,
    before,
    value: `${familyToNft[family]} daddr . ${balance.protocol.toLowerCase()} dport`,
  });
  const rule = `meta l4proto ${toProtocolNumber(balance)} dnat ${familyToNft[family]} to ${pick(balance, count)} map @${name}`;
  return { rules: [rule], sets: [[name, set]], chains: [] };
}

/** Clients whose place is kept first. A slot leads to an endpoint's chain, which keeps the client's place. */
function chooseKept(balance: PortBalance, before: NftTable): Piece {
  const { family, backends, affinitySeconds } = balance;
  const source = `${familyToNft[family]} saddr`;
  const ends = backends.map((backend) => {
    const suffix = `${identifyPort(balance)}/${backend.address.replaceAll(':', '-')}/${backend.port}`;
    const [chain, clients] = [`end/${suffix}`, `clients/${suffix}${nameSeconds(affinitySeconds)}`];
    const translate = `meta l4proto ${toProtocolNumber(balance)} dnat to ${formatEndpoint({ family, ...backend })}`;
    const set = declareMemory(toAddressType(family), affinitySeconds ?? 0);
    // Also where the set is full, which ends a rule that would add to it.
    const { weight = usualWeight } = backend;
    return {
      chain,
      clients,
      set,
      weight,
      rules: [`update @${clients} { ${source} } ${translate}`, translate],
    };
  });
  const wanted = new Map(ends.map(({ chain, weight }) => [`goto ${chain}`, weight]));
  const { name, count, set } = declareSlots(balance, { wanted, before, value: 'verdict' });
  return {
    rules: [
      ...ends.map(({ chain, clients }) => `${source} @${clients} goto ${chain}`),
      `${pick(balance, count)} vmap @${name}`,
    ],
    sets: [[name, set], ...ends.map((end) => [end.clients, end.set] as const)],
    chains: ends.map((end) => [end.chain, toChain(end.rules)] as const),
  };
}

interface SlotNeeds {
  /** In the order of the balance's backends. */
  readonly wanted: Weights;
  readonly before: NftTable;
  /** The type of what a slot leads to. */
  readonly value: string;
}

function declareSlots(
  balance: PortBalance,
  { wanted, before, value }: SlotNeeds,
): { name: string; count: number; set: NftSet } {
  const name = `slots/${identifyPort(balance)}${value === 'verdict' ? '/kept' : ''}`;
  const known = before.sets.get(name)?.elements ?? new Map<string, string>();
  const placed = Array.from({ length: known.size }, (_, at) => known.get(String(at)) ?? '');
  const slots = chooseSlots(balance, placed, wanted);
  return { name, count: slots.length, set: toSlotMap(slots, value) };
}

/** nft has no other word for the type of a number; which one is given there makes no difference. */
function toSlotMap(slots: readonly string[], value: string): NftSet {
  const elements = new Map(slots.map((slot, at) => [String(at), slot]));
  return { kind: 'map', declaration: `typeof numgen inc mod 2 : ${value}`, elements };
}

function chooseSlots({ method, backends, parts }: PortBalance, placed: string[], wanted: Weights): string[] {
  if (method === 'hash') return hashSlots(wanted);
  if (method !== 'lc') return fillSlots(placed, wanted);
  const known = parts === undefined ? null : backends.map((backend) => parts.get(nameEnd(backend)) ?? 1);
  return shareSlots(placed, wanted, known);
}

function pick({ method, family }: PortBalance, count: number): string {
  switch (method) {
    case 'random':
    case 'lc':
      return `numgen random mod ${count}`;
    case 'rr':
      return `numgen inc mod ${count}`;
    case 'hash':
      return `jhash ${familyToNft[family]} saddr mod ${count} seed ${hashSeed}`;
  }
}

/**
 * Which connections get a source of this host's, so that answers come back through it: all, unless the endpoints are to see who
 * asks. Then only this host's own, and those of a pod that is sent to itself.
 */
function giveSource(balance: PortBalance): Omit<Piece, 'rules'> & { readonly chain: string } {
  if (!balance.keepsClient) return { chain: shared.ownSource, sets: [], chains: [] };
  const [chain, set] = [`source/${identifyPort(balance)}`, `itself/${identifyPort(balance)}`];
  const ip = familyToNft[balance.family];
  const type = toAddressType(balance.family);
  const elements = new Map(balance.backends.map(({ address }) => [`${address} . ${address}`, '']));
  const rules = [
    'fib saddr type 2 masquerade fully-random',
    `${ip} saddr . ${ip} daddr @${set} masquerade fully-random`,
  ];
  return {
    chain,
    sets: [[set, { kind: 'set', declaration: `type ${type} . ${type}`, elements }]],
    chains: [[chain, toChain(rules)]],
  };
}

function toChain(rules: readonly string[]): NftChain {
  return { hook: null, rules };
}

/** For how long after its last packet a connection's node is remembered. A connection that comes later is sent by its hash. */
const memorySeconds = 900;

/** So many ICMP errors of one port are sent on in a second, each to all nodes. Routers send far fewer; a flood gets no more copies. */
const errorsPerSecond = 250;

/** SYN, and none of ACK, FIN and RST: a connection begins. */
const opens = 'tcp flags & (fin | syn | rst | ack) == syn';

/** A place of new connections, or of open ones: a node, or this one. */
interface NodePath {
  /** Null for this one. */
  readonly node: string | null;
  /** Where open connections continue. */
  readonly chain: string;
  /** Where new ones begin. */
  readonly start: string;
  /** Connections that were sent there. None for this node: connection tracking has them. */
  readonly memory: string | null;
  /** Clients that are kept there, where the Service asks for that and an endpoint there serves. */
  readonly kept: string | null;
}

/**
 * The part of a family's table that sends connections to one port to other nodes. A connection's node follows from its
 * hash, which is the same on every node: another node that comes to hold the address sends most packets to the same nodes. Pure.
 */
function renderRelay(balance: PortBalance, relay: Relay): NftTable {
  const [id, { family, addresses, port }] = [identifyPort(balance), balance];
  const number = toProtocolNumber(balance);
  const paths = listPaths(balance, relay);
  const slots = listSlots(relay, paths);
  const toElements = (keys: readonly string[], value: string) => new Map(keys.map((key) => [key, value]));
  const keys = addresses.map((address) => `${address} . ${number} . ${port}`);
  const errorKeys = addresses.map((address) => `${address} . ${toHex(Number(number))} . ${toHex(port)}`);
  return {
    sets: new Map<string, NftSet>([
      [shared.relays, { ...declareVipMap(family), elements: toElements(keys, `goto relay/${id}`) }],
      [shared.errors, { ...declareErrorMap(family), elements: toElements(errorKeys, `goto errors/${id}`) }],
      ...(slots.length === 0 ? [] : [[`relay-${id}`, toSlotMap(slots, 'verdict')] as const]),
      ...paths.flatMap((path) => declareMemories(balance, path)),
    ]),
    chains: new Map<string, NftChain>([
      [`relay/${id}`, toChain(chooseRelay(balance, { relay, paths, slots }))],
      [`errors/${id}`, toChain(sendErrorsOn(balance, relay))],
      ...(balance.protocol === 'TCP' ? [[`forget/${id}`, toChain(forget(balance, paths))] as const] : []),
      ...paths.flatMap((path) => renderPath(balance, relay, path)),
    ]),
  };
}

/** This node is one where it serves and keeps clients. */
function listPaths(balance: PortBalance, relay: Relay): NodePath[] {
  const id = identifyPort(balance);
  const serving = new Set(relay.ends.values());
  const keeps = balance.affinitySeconds !== null;
  const nodes = keeps && serving.has(null) ? [...relay.nodes.keys(), null] : [...relay.nodes.keys()];
  return nodes.map((node) => {
    const suffix = `${id}/${node === null ? 'here' : hashNode(node)}`;
    const [chain, start] = [`to/${suffix}`, `begin/${suffix}`];
    const isKept = keeps && serving.has(node);
    return {
      node,
      chain,
      start: isKept ? start : chain,
      memory: node === null ? null : `relayed/${suffix}`,
      // Named by the time: a set cannot get another one.
      kept: isKept ? `kept/${suffix}/${balance.affinitySeconds}` : null,
    };
  });
}

function hashNode(node: string): string {
  return createHash('sha256').update(node).digest('hex').slice(0, 10);
}

/** By the hash of a new connection, what is done with it. */
function listSlots({ ends, weights }: Relay, paths: readonly NodePath[]): string[] {
  const verdictOf = (node: string | null) => {
    const path = paths.find((one) => one.node === node);
    return path === undefined ? 'accept' : `goto ${path.start}`;
  };
  const endToVerdict = new Map([...ends].map(([end, node]) => [end, verdictOf(node)]));
  return hashSlots(weights).map((end) => endToVerdict.get(end) ?? '');
}

interface Choice {
  readonly relay: Relay;
  readonly paths: readonly NodePath[];
  readonly slots: readonly string[];
}

/** Of packets to the address, in this order. A connection that begins asks nothing that is remembered of one before it. */
function chooseRelay(balance: PortBalance, { relay, paths, slots }: Choice): string[] {
  const { family, affinitySeconds, isHere, protocol } = balance;
  const [id, source] = [identifyPort(balance), `${familyToNft[family]} saddr`];
  const hashed = affinitySeconds === null ? nameConnection(balance) : source;
  return [
    // Not for pods and programs of this node: their connections are not from outside.
    ...acceptInside(relay.uplinks ?? null),
    // Translated here, whatever the endpoints were then.
    'ct state 0x2,0x4 accept',
    // Another node chose this one, whatever this one would choose. Or it came back from a node that did not take it.
    `${nameTtl(family)} ${sentOn.first}-${sentOn.last} ${isHere ? 'accept' : 'drop'}`,
    ...(protocol === 'TCP' ? [`${opens} jump forget/${id}`] : []),
    ...paths.flatMap(({ memory, chain }) =>
      memory === null ? [] : [`${nameConnection(balance)} @${memory} goto ${chain}`],
    ),
    ...paths.flatMap(({ kept, start }) => (kept === null ? [] : [`${source} @${kept} goto ${start}`])),
    ...(slots.length === 0 ? [] : [`jhash ${hashed} mod ${slots.length} seed ${hashSeed} vmap @relay-${id}`]),
  ];
}

/** A client uses a port again: what comes on it from now on goes where this connection goes. */
function forget(balance: PortBalance, paths: readonly NodePath[]): string[] {
  return paths.flatMap(({ memory }) =>
    memory === null ? [] : [`delete @${memory} { ${nameConnection(balance)} }`],
  );
}

function renderPath(
  balance: PortBalance,
  relay: Relay,
  { node, chain, start, memory, kept }: NodePath,
): [string, NftChain][] {
  // A full set ends the rule that would add to it, and no other.
  const remember = memory === null ? [] : [`update @${memory} { ${nameConnection(balance)} }`];
  const rules =
    node === null ? ['accept'] : [...remember, ...sendOn(balance, relay.nodes.get(node) ?? ''), 'drop'];
  const toBegin = [`update @${kept ?? ''} { ${familyToNft[balance.family]} saddr }`, `goto ${chain}`];
  const path: [string, NftChain] = [chain, toChain(rules)];
  return kept === null ? [path] : [path, [start, toChain(toBegin)]];
}

/** The path to another node, with the sign by which that one knows it. */
function sendOn({ family }: PortBalance, address: string): string[] {
  return [`${nameTtl(family)} set ${sentOn.last + 1}`, `dup to ${address}`];
}

/**
 * To all nodes, as only one knows the connection, and this one cannot read whose it is. The others drop it: here it would be a packet of
 * no connection, and go back to the address.
 */
function sendErrorsOn(balance: PortBalance, relay: Relay): string[] {
  const ttl = nameTtl(balance.family);
  return [
    'ct state 0x2,0x4 accept',
    `${ttl} ${sentOn.first}-${sentOn.last} drop`,
    ...acceptInside(relay.uplinks ?? null),
    `limit rate over ${errorsPerSecond}/second burst ${errorsPerSecond} packets drop`,
    ...[...relay.nodes.values()].flatMap((address) => sendOn(balance, address)),
    'drop',
  ];
}

/** What one connection is known by. */
function nameConnection({ family }: PortBalance): string {
  return `${familyToNft[family]} saddr . th sport`;
}

function declareMemories(
  { family, affinitySeconds }: PortBalance,
  path: NodePath,
): (readonly [string, NftSet])[] {
  const type = toAddressType(family);
  return [
    ...(path.memory === null
      ? []
      : [[path.memory, declareMemory(`${type} . inet_service`, memorySeconds)] as const]),
    ...(path.kept === null ? [] : [[path.kept, declareMemory(type, affinitySeconds ?? 0)] as const]),
  ];
}

/** As nft prints numbers that it knows no type of. */
function toHex(value: number): string {
  return `0x${value.toString(16)}`;
}

import {
  type PortBalance,
  type Guard,
  acceptInside,
  toProtocolNumber,
  identifyPort,
  nameEnd,
  type Relay,
} from '../services/backends.ts';
import { type NftTable, emptyTable, type NftSet, toAddressType, type NftChain } from '../../lib/nft/table.ts';
import { mergeTables, shared, createMap, nameTtl, sentOn } from './table.ts';
import { familyToNft } from '../../lib/kernel/port.ts';
import { createHash } from 'node:crypto';
import { usualWeight } from '../../lib/api/endpoints.ts';
import { formatEndpoint } from '../../lib/net.ts';
import { type Weights, hashSlots, fillSlots, shareSlots, hashSeed } from './slots.ts';

/** The part of a family's table that one port of a Service has. Slots of `before`, the table as it is, stay where they are. Pure. */
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
  const places = [...addresses].flatMap(([address, ports]) => ports.map((port) => `${address} . ${port}`));
  const type = `type ${toAddressType(family)} . inet_proto . inet_service`;
  // A Service that is kube-proxy's is in no map: its ports are not nobody's.
  const accept = `${familyToNft[family]} daddr . meta l4proto . th dport @${named} accept`;
  return {
    sets: new Map([
      [shared.guards, createMap(family, 'guards', toElements([...addresses.keys()], `goto ${name}`))],
      [named, toSet(type, places)],
    ]),
    chains: new Map([[name, toChain([...acceptInside(uplinks), accept, `goto ${shared.refuse}`])]]),
  };
}

function toElements(keys: readonly string[], value: string): Map<string, string> {
  return new Map(keys.map((key) => [key, value]));
}

function toSet(declaration: string, keys: readonly string[]): NftSet {
  return { kind: 'set', declaration, elements: toElements(keys, '') };
}

/** What this node sends to endpoints itself. */
function renderHere(balance: PortBalance, before: NftTable): NftTable {
  const name = `lb/${identifyPort(balance)}`;
  const pieces = [admit(balance), ...connect(balance, before)];
  return {
    sets: new Map([[shared.vips, toPortMap(balance, 'vips', name)], ...pieces.flatMap(({ sets }) => sets)]),
    chains: new Map([
      [name, toChain(pieces.flatMap(({ rules }) => rules))],
      ...pieces.flatMap(({ chains }) => chains),
    ]),
  };
}

/** What leads packets to the port, at all its addresses, to a chain. */
function toPortMap(balance: PortBalance, name: 'vips' | 'translated' | 'relays', chain: string): NftSet {
  const { family, addresses, port } = balance;
  const keys = addresses.map((address) => `${address} . ${toProtocolNumber(balance)} . ${port}`);
  return createMap(family, name, toElements(keys, `goto ${chain}`));
}

/** Where connections go, and which source they get. */
function connect(balance: PortBalance, before: NftTable): Piece[] {
  if (balance.backends.length === 0) return [{ rules: [`goto ${shared.refuse}`], sets: [], chains: [] }];
  const choice = balance.affinitySeconds === null ? choose(balance, before) : chooseKept(balance, before);
  const { chain, ...source } = giveSource(balance);
  const translated = toPortMap(balance, 'translated', chain);
  return [choice, { ...source, rules: [], sets: [[shared.translated, translated], ...source.sets] }];
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
  const name = `sources/${service}/${shorten(sources.join())}`;
  return {
    rules: [`${familyToNft[family]} saddr != @${name} drop`],
    sets: [[name, toSet(`type ${toAddressType(family)}; flags interval`, sources)]],
    chains: [],
  };
}

/** One rule for all endpoints. A slot leads straight to one. */
function choose(balance: PortBalance, before: NftTable): Piece {
  const { family } = balance;
  const wanted = new Map(
    balance.backends.map((backend) => [nameEnd(backend), backend.weight ?? usualWeight]),
  );
  const value = `${familyToNft[family]} daddr . ${balance.protocol.toLowerCase()} dport`;
  const { name, count, set } = declareSlots(balance, wanted, before, value);
  const rule = `meta l4proto ${toProtocolNumber(balance)} dnat ${familyToNft[family]} to ${pick(balance, count)} map @${name}`;
  return { rules: [rule], sets: [[name, set]], chains: [] };
}

/** Clients whose place is kept first. A slot leads to an endpoint's chain, which keeps the client's place. */
function chooseKept(balance: PortBalance, before: NftTable): Piece {
  const { family, backends } = balance;
  const memory = remember(balance, 'clients', `${familyToNft[family]} saddr`, balance.affinitySeconds ?? 0);
  const ends = backends.map((backend) => {
    const chain = `end/${identifyPort(balance)}/${backend.address.replaceAll(':', '-')}/${backend.port}`;
    const translate = `meta l4proto ${toProtocolNumber(balance)} dnat to ${formatEndpoint({ family, ...backend })}`;
    const rules = [memory.keep(nameEnd(backend)), forgetNumber, translate];
    return { chain, backend, rules, verdict: `goto ${chain}` };
  });
  const wanted = new Map(
    ends.map(({ verdict, backend: { weight = usualWeight } }) => [verdict, weight] as const),
  );
  const { name, count, set } = declareSlots(balance, wanted, before, 'verdict');
  const kept = memory.recall(new Map(ends.map(({ backend, verdict }) => [nameEnd(backend), verdict])));
  return {
    rules: [...kept.rules, `${pick(balance, count)} vmap @${name}`],
    sets: [[name, set], ...kept.sets],
    chains: [...kept.chains, ...ends.map(({ chain, rules }) => [chain, toChain(rules)] as const)],
  };
}

/**
 * Which place a client or a connection has.
 *
 * Goal: one lookup for a packet, and one map for a port, however many places there are.
 * Tension: nft has no map from what rules put into it to verdicts.
 * Compromise: the map has numbers of places. The number goes through the packet's priority, which is none where a packet comes in, to the
 * place. So it is none again afterwards. A number follows from its place's name: it outlives changes and restarts.
 */
interface Memory {
  /** The rule that keeps a key's place. It changes none that is kept, and does nothing where the map is full. */
  readonly keep: (place: string, seconds?: number) => string;
  /** What ends a rule that forgets a key. */
  readonly forget: string;
  /** What sends the keys that have one of these places, to verdicts. A key of another place is forgotten. */
  readonly recall: (places: ReadonlyMap<string, string>) => Piece;
}

const forgetNumber = 'meta priority set none';

/** A map's declaration cannot change: another time is another map. */
function remember(balance: PortBalance, kind: string, key: string, seconds: number): Memory {
  const name = `${kind}/${identifyPort(balance)}/${seconds}`;
  const forget = `delete @${name} { ${key} : 1:1 }`;
  const [chain, places] = [`recall/${name}`, `places/${name}`];
  // Without a size: the kernel then takes memory as the map grows, and `maxKeys` at most. With one, it takes 2 MB immediately.
  const declaration = `typeof ${key} : meta priority; flags dynamic,timeout; timeout ${seconds}s`;
  return {
    keep: (place, limit) =>
      `update @${name} { ${key}${limit === undefined ? '' : ` timeout ${limit}s`} : ${toHandle(place)} }`,
    forget,
    recall: (verdicts) => {
      const elements = new Map([...verdicts].map(([place, verdict]) => [toHandle(place), verdict]));
      return {
        rules: [`meta priority set ${key} map @${name} jump ${chain}`],
        sets: [
          [name, { kind: 'map', declaration, elements: new Map() }],
          [places, { kind: 'map', declaration: 'typeof meta priority : verdict', elements }],
        ],
        chains: [[chain, toChain([`meta priority vmap @${places}`, forget, forgetNumber])]],
      };
    },
  };
}

/** A place's number, as nft prints priorities. It has names for 0 and for the largest one. */
function toHandle(place: string): string {
  const digest = createHash('sha256').update(place).digest();
  return [0, 2].map((at) => ((digest.readUInt16BE(at) % 0xfffe) + 1).toString(16)).join(':');
}

/** `wanted` is in the order of the balance's backends, `value` the type of what a slot leads to. */
function declareSlots(balance: PortBalance, wanted: Weights, before: NftTable, value: string) {
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
  if (method === 'hash') return `jhash ${familyToNft[family]} saddr mod ${count} seed ${hashSeed}`;
  return `numgen ${method === 'rr' ? 'inc' : 'random'} mod ${count}`;
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
  const pairs = balance.backends.map(({ address }) => `${address} . ${address}`);
  const rules = [
    'fib saddr type 2 masquerade fully-random',
    `${ip} saddr . ${ip} daddr @${set} masquerade fully-random`,
  ];
  return {
    chain,
    sets: [[set, toSet(`type ${type} . ${type}`, pairs)]],
    chains: [[chain, toChain(rules)]],
  };
}

function toChain(rules: readonly string[]): NftChain {
  return { hook: null, rules };
}

/**
 * For how long after its last packet a connection's node is remembered. A connection that comes later is sent by its hash. Of UDP, the pod's node
 * forgets it after two minutes (nf_conntrack_udp_timeout_stream).
 */
const memorySeconds = { TCP: 900, SCTP: 900, UDP: 180 };

/** Of a connection's first packet: who invents clients sends no second one. Whoever asks again was answered, or asks the same node again. */
const newSeconds = 60;

/** After the client's FIN or RST, as the kernel has it for the last ACK (nf_conntrack_tcp_timeout_last_ack). */
const closedSeconds = 30;

/** So many ICMP errors of one port are sent on in a second, each to all nodes. Routers send far fewer; a flood gets no more copies. */
const errorsPerSecond = 250;

/**
 * A connection begins: SYN, and none of ACK, FIN and RST. Of SCTP, INIT, which is a packet's only chunk (RFC 9260, 6.10). The client ends
 * one: FIN or RST, as all versions of nft print them. Of SCTP, ABORT or a chunk of its shutdown (RFC 9260, 3.2).
 */
const protocolToSigns: Readonly<Record<string, Readonly<Record<'opening' | 'closing', string>>>> = {
  TCP: { opening: 'tcp flags & (fin | syn | rst | ack) == syn', closing: 'tcp flags 0x1,0x4' },
  SCTP: { opening: '@th,96,8 0x1', closing: '@th,96,8 { 0x6, 0x7, 0x8, 0xe }' },
};

/** A place of new connections, or of open ones: a node, or this one. Its chains are for connections that continue, begin, or have ended. */
interface NodePath extends Readonly<Record<'chain' | 'start' | 'closed' | 'sent', string>> {
  /** Null for this one. */
  readonly node: string | null;
  /** Whether clients are kept there: the Service asks for that, and an endpoint there serves. */
  readonly isKept: boolean;
}

/**
 * The part of a family's table that sends connections to one port to other nodes. A connection's node follows from its
 * hash, which is the same on every node: another node that comes to hold the address sends most packets to the same nodes. Pure.
 */
function renderRelay(balance: PortBalance, relay: Relay): NftTable {
  const [id, { family, addresses, port }] = [identifyPort(balance), balance];
  const number = toHex(Number(toProtocolNumber(balance)));
  const paths = listPaths(balance, relay);
  const slots = listSlots(relay, paths);
  const memories = rememberNodes(balance);
  const away = paths.filter(({ node }) => node !== null);
  const toVerdicts = (chosen: readonly NodePath[], to: 'chain' | 'start' | 'closed') =>
    chosen.map((path): [string, string] => [nameState(path.node, to), `goto ${path[to]}`]);
  const states = [...toVerdicts(away, 'chain'), ...toVerdicts(away, 'closed')];
  const kept = toVerdicts(
    paths.filter(({ isKept }) => isKept),
    'start',
  );
  const recalls = [
    memories.connections.recall(new Map(states)),
    ...(memories.clients === null ? [] : [memories.clients.recall(new Map(kept))]),
  ];
  const errorKeys = addresses.map((address) => `${address} . ${number} . ${toHex(port)}`);
  return {
    sets: new Map<string, NftSet>([
      [shared.relays, toPortMap(balance, 'relays', `relay/${id}`)],
      [shared.errors, createMap(family, 'errors', toElements(errorKeys, `goto errors/${id}`))],
      ...(slots.length === 0 ? [] : [[`relay-${id}`, toSlotMap(slots, 'verdict')] as const]),
      ...recalls.flatMap(({ sets }) => sets),
    ]),
    chains: new Map<string, NftChain>([
      [`relay/${id}`, toChain(chooseRelay(balance, relay, recalls, slots))],
      [`errors/${id}`, toChain(sendErrorsOn(balance, relay))],
      ...recalls.flatMap(({ chains }) => chains),
      // Apart from what it follows from: nft prints `tcp sport` for `th sport` behind that.
      [`forget/${id}`, toChain([memories.connections.forget])],
      ...paths.flatMap((path) => renderPath(path, balance, relay, memories)),
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
    const suffix = `${id}/${node === null ? 'here' : shorten(node)}`;
    const chains = { chain: `to/${suffix}`, start: `begin/${suffix}`, closed: `closed/${suffix}` };
    return { node, ...chains, sent: `send/${suffix}`, isKept: keeps && serving.has(node) };
  });
}

/** What a connection's memory says: its node, and that it has ended. */
function nameState(node: string | null, to: 'chain' | 'start' | 'closed'): string {
  return `${node ?? ''}${to === 'closed' ? ' closed' : ''}`;
}

/** What is remembered of a port: the nodes of connections, and of clients where the Service asks for that. */
function rememberNodes(balance: PortBalance) {
  const [seconds, source] = [balance.affinitySeconds, `${familyToNft[balance.family]} saddr`];
  // The port comes first: nft 1.0.6 aborts at a value behind `ip6 saddr . th sport`.
  const connection = `th sport . ${source}`;
  const kept = memorySeconds[balance.protocol as keyof typeof memorySeconds];
  return {
    connections: remember(balance, 'relayed', connection, kept),
    clients: seconds === null ? null : remember(balance, 'kept', source, seconds),
  };
}

/** For what a name may not have, or is too long for one. */
function shorten(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 10);
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

/** Of packets to the address, in this order. A connection that begins asks nothing that is remembered of one before it. */
function chooseRelay(
  balance: PortBalance,
  relay: Relay,
  recalls: readonly Piece[],
  slots: readonly string[],
): string[] {
  const { family, affinitySeconds, isHere, protocol } = balance;
  const [id, source] = [identifyPort(balance), `${familyToNft[family]} saddr`];
  const opening = protocolToSigns[protocol]?.opening;
  const hashed = affinitySeconds === null ? `${source} . th sport` : source;
  return [
    // Not for pods and programs of this node: their connections are not from outside.
    ...acceptInside(relay.uplinks ?? null),
    // Translated here, whatever the endpoints were then.
    'ct state 0x2,0x4 accept',
    // Another node chose this one, whatever this one would choose. Or it came back from a node that did not take it.
    `${nameTtl(family)} ${sentOn.first}-${sentOn.last} ${isHere ? 'accept' : 'drop'}`,
    ...(opening === undefined ? [] : [`${opening} jump forget/${id}`]),
    ...recalls.flatMap(({ rules }) => rules),
    ...(slots.length === 0 ? [] : [`jhash ${hashed} mod ${slots.length} seed ${hashSeed} vmap @relay-${id}`]),
  ];
}

/** A packet of a connection that has ended gets it no longer time: the last one is mostly an ACK. */
function renderPath(
  { node, chain, start, closed, sent, isKept }: NodePath,
  balance: PortBalance,
  relay: Relay,
  { connections: { keep }, clients }: ReturnType<typeof rememberNodes>,
): [string, NftChain][] {
  const keepsClient = isKept && clients !== null ? [clients.keep(node ?? '')] : [];
  if (node === null)
    return [
      [chain, toChain([forgetNumber, 'accept'])],
      [start, toChain([...keepsClient, `goto ${chain}`])],
    ];
  const [forget, closing] = [`forget/${identifyPort(balance)}`, protocolToSigns[balance.protocol]?.closing];
  const toClosed = closing === undefined ? [] : [`${closing} jump ${forget}`, `${closing} goto ${closed}`];
  return [
    [chain, toChain([...toClosed, keep(nameState(node, 'chain')), `goto ${sent}`])],
    [start, toChain([...keepsClient, keep(nameState(node, 'start'), newSeconds), `goto ${sent}`])],
    [closed, toChain([keep(nameState(node, 'closed'), closedSeconds), `goto ${sent}`])],
    [sent, toChain([forgetNumber, ...sendOn(balance, relay.nodes.get(node) ?? ''), 'drop'])],
  ];
}

/** The path to another node, with the sign by which that one knows it. */
function sendOn({ family }: PortBalance, address: string): string[] {
  return [`${nameTtl(family)} set ${sentOn.last + 1}`, `dup to ${address}`];
}

/** To all nodes: one knows the connection, and this one cannot read which. The others drop it: without a connection it would go back to the address. */
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

/** As nft prints numbers that it knows no type of. */
function toHex(value: number): string {
  return `0x${value.toString(16)}`;
}

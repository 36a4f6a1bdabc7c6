import { createHash } from 'node:crypto';
import { declareErrorMap, declareVipMap, nameTtl, sentOn, shared } from '../table/skeleton.ts';
import { declareMemory, toAddressType } from '../../lib/netfilter/nftables/declare.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type NftChain, type NftSet, type NftTable } from '../../lib/netfilter/nftables/ruleset.ts';
import { type Relay } from './relay.ts';
import { acceptInside } from './uplinks.ts';
import { hashSeed, hashSlots } from './slots.ts';
import { identifyPort, type PortBalance, toProtocolNumber } from './balanced-service.ts';

/** For how long after its last packet a connection's node is remembered. A connection that comes later is sent by its hash. */
const memorySeconds = 900;

/** So many ICMP errors of one port go on in a second, each to all nodes. Routers send far fewer; who floods gets no more copies. */
const errorsPerSecond = 250;

/** SYN, and none of ACK, FIN and RST: a connection begins. Of a chain that only TCP comes to. */
const opens = '@th,104,8 & 0x17 == 0x2';

/** A place of new connections, or of open ones: a node, or this one. */
interface Way {
  /** Null for this one. */
  readonly node: string | null;
  /** Where open connections go on. */
  readonly chain: string;
  /** Where new ones begin. */
  readonly start: string;
  /** Connections that were sent there. None for this node: connection tracking has them. */
  readonly memory: string | null;
  /** Clients that are kept there, where the Service asks for that and an endpoint there serves. */
  readonly kept: string | null;
}

/**
 * The part of a family's table that sends connections to one port on to other nodes. Which node is a connection's follows from its
 * hash, which is the same on every node: another one that comes to hold the address sends most packets the same way. Pure.
 */
export function renderRelay(balance: PortBalance, relay: Relay): NftTable {
  const [id, { family, addresses, port }] = [identifyPort(balance), balance];
  const number = toProtocolNumber(balance);
  const ways = listWays(balance, relay);
  const slots = listSlots(relay, ways);
  const toElements = (keys: readonly string[], value: string) => new Map(keys.map((key) => [key, value]));
  const keys = addresses.map((address) => `${address} . ${number} . ${port}`);
  const errorKeys = addresses.map((address) => `${address} . ${toHex(Number(number))} . ${toHex(port)}`);
  return {
    sets: new Map<string, NftSet>([
      [shared.relays, { ...declareVipMap(family), elements: toElements(keys, `goto relay/${id}`) }],
      [shared.errors, { ...declareErrorMap(family), elements: toElements(errorKeys, `goto errors/${id}`) }],
      ...(slots.length === 0 ? [] : [[`relay-${id}`, declareSlots(slots)] as const]),
      ...ways.flatMap((way) => declareMemories(balance, way)),
    ]),
    chains: new Map<string, NftChain>([
      [`relay/${id}`, toChain(choose(balance, { relay, ways, slots }))],
      [`errors/${id}`, toChain(sendErrorsOn(balance, relay))],
      ...(balance.protocol === 'TCP' ? [[`forget/${id}`, toChain(forget(balance, ways))] as const] : []),
      ...ways.flatMap((way) => renderWay(balance, relay, way)),
    ]),
  };
}

/** This node is one where it serves and keeps clients. */
function listWays(balance: PortBalance, relay: Relay): Way[] {
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
function listSlots({ ends, weights }: Relay, ways: readonly Way[]): string[] {
  const verdictOf = (node: string | null) => {
    const way = ways.find((one) => one.node === node);
    return way === undefined ? 'accept' : `goto ${way.start}`;
  };
  const endToVerdict = new Map([...ends].map(([end, node]) => [end, verdictOf(node)]));
  return hashSlots(weights).map((end) => endToVerdict.get(end) ?? '');
}

interface Choice {
  readonly relay: Relay;
  readonly ways: readonly Way[];
  readonly slots: readonly string[];
}

/** Of packets to the address, in this order. A connection that begins asks nothing that is remembered of one before it. */
function choose(balance: PortBalance, { relay, ways, slots }: Choice): string[] {
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
    ...ways.flatMap(({ memory, chain }) =>
      memory === null ? [] : [`${nameConnection(balance)} @${memory} goto ${chain}`],
    ),
    ...ways.flatMap(({ kept, start }) => (kept === null ? [] : [`${source} @${kept} goto ${start}`])),
    ...(slots.length === 0 ? [] : [`jhash ${hashed} mod ${slots.length} seed ${hashSeed} vmap @relay-${id}`]),
  ];
}

/** A client uses a port again: what comes on it from now on goes where this connection goes. */
function forget(balance: PortBalance, ways: readonly Way[]): string[] {
  return ways.flatMap(({ memory }) =>
    memory === null ? [] : [`delete @${memory} { ${nameConnection(balance)} }`],
  );
}

function renderWay(balance: PortBalance, relay: Relay, way: Way): [string, NftChain][] {
  const { node, chain, start, memory, kept } = way;
  // A full set ends the rule that would add to it, and no other.
  const remember = memory === null ? [] : [`update @${memory} { ${nameConnection(balance)} }`];
  const rules =
    node === null ? ['accept'] : [...remember, ...sendOn(balance, relay.nodes.get(node) ?? ''), 'drop'];
  const toBegin = [`update @${kept ?? ''} { ${familyToNft[balance.family]} saddr }`, `goto ${chain}`];
  return [[chain, toChain(rules)], ...(kept === null ? [] : [[start, toChain(toBegin)] as const])].map(
    ([name, rendered]) => [name, rendered] as [string, NftChain],
  );
}

/** The way to another node, with the sign by which that one knows it. */
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

function declareMemories({ family, affinitySeconds }: PortBalance, way: Way): (readonly [string, NftSet])[] {
  const type = toAddressType(family);
  return [
    ...(way.memory === null
      ? []
      : [[way.memory, declareMemory(`${type} . inet_service`, memorySeconds)] as const]),
    ...(way.kept === null ? [] : [[way.kept, declareMemory(type, affinitySeconds ?? 0)] as const]),
  ];
}

function declareSlots(slots: readonly string[]): NftSet {
  const elements = new Map(slots.map((slot, at) => [String(at), slot]));
  return { kind: 'map', declaration: 'typeof numgen inc mod 2 : verdict', elements };
}

function toChain(rules: readonly string[]): NftChain {
  return { hook: null, rules };
}

/** As nft prints numbers that it knows no type of. */
function toHex(value: number): string {
  return `0x${value.toString(16)}`;
}

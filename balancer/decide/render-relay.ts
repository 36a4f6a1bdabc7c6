import { createHash } from 'node:crypto';
import { declareVipMap, nameTtl, sentOn, shared, toAddressType } from '../table/skeleton.ts';
import { type Table, type TableChain, type TableSet, toWord } from '../table/table.ts';
import { identifyPort, toProtocolNumber, type PortBalance } from './port-balance.ts';
import { type Relay } from './relay.ts';
import { hashSeed, hashSlots } from './slots.ts';

/** For how long after its last packet a connection's node is remembered. A connection that comes later is sent by its hash. */
const memorySeconds = 900;

/** How many connections to one node are remembered. One more is sent by its hash, which changes only with the endpoints. */
const maxRemembered = 65_535;

/**
 * The part of a family's table that sends connections to one port on to other nodes. Which node is a connection's follows from its
 * hash, which is the same on every node: another one that comes to hold the address sends most packets the same way. Pure.
 */
export function renderRelay(balance: PortBalance, relay: Relay): Table {
  const id = identifyPort(balance);
  const name = `relay/${id}`;
  const client = listClientKey(balance);
  const ways = [...relay.nodes].map(([node, address]) => {
    const suffix = `${id}/${createHash('sha256').update(node).digest('hex').slice(0, 10)}`;
    return { node, address, chain: `to/${suffix}`, memory: `relayed/${suffix}${nameMemory(balance)}` };
  });
  const verdictOf = (node: string | null) =>
    node === null ? 'accept' : `goto ${ways.find((way) => way.node === node)?.chain ?? ''}`;
  const ends = new Map([...relay.ends].map(([end, node]) => [end, verdictOf(node)]));
  const slots = hashSlots(relay.weights).map((end) => ends.get(end) ?? '');
  const keys = balance.addresses.map(
    (address) => `${address} . ${toProtocolNumber(balance)} . ${balance.port}`,
  );
  return {
    sets: new Map<string, TableSet>([
      [
        shared.relays,
        { ...declareVipMap(balance.family), elements: new Map(keys.map((key) => [key, `goto ${name}`])) },
      ],
      ...(slots.length === 0 ? [] : [[`relay-${id}`, declareSlots(slots)] as const]),
      ...ways.map(({ memory }) => [memory, declareMemory(balance)] as const),
    ]),
    chains: new Map<string, TableChain>([
      [
        name,
        toChain([
          // Not for pods and programs of this node: their connections are not from outside.
          ...refuseInside(relay),
          // Another node chose this one, whatever this one would choose.
          `${nameTtl(balance.family)} ${sentOn.first}-${sentOn.last} accept`,
          // Translated here, whatever the endpoints were then.
          'ct state 0x2,0x4 accept',
          ...ways.map(({ memory, chain }) => `${client} @${memory} goto ${chain}`),
          ...(slots.length === 0
            ? []
            : [`jhash ${client} mod ${slots.length} seed ${hashSeed} vmap @relay-${id}`]),
        ]),
      ],
      ...ways.map(
        ({ chain, memory, address }) =>
          // A full set ends the rule that would add to it, and no other.
          [chain, toChain([`update @${memory} { ${client} }`, ...sendOn(balance, address)])] as const,
      ),
    ]),
  };
}

/** The second form is looser: other nodes take themselves for the one that holds the address, and find themselves by the same hash. */
function refuseInside({ uplinks }: Relay): string[] {
  if (uplinks === undefined) return ['fib daddr . iif type != 2 accept'];
  return [`${uplinks.map((name) => `iifname != "${name}"`).join(' ')} accept`];
}

/** The way to another node, with the sign by which that one knows it. */
function sendOn(balance: PortBalance, address: string): string[] {
  return [`${nameTtl(balance.family)} set ${sentOn.last + 1}`, `dup to ${address}`, 'drop'];
}

/** What one connection is known by; with affinity, all of a client's. */
function listClientKey({ family, affinitySeconds }: PortBalance): string {
  const source = `${toWord(family)} saddr`;
  return affinitySeconds === null ? `${source} . th sport` : source;
}

/** A set's declaration cannot change: with affinity, and another time, it is another set. */
function nameMemory({ affinitySeconds }: PortBalance): string {
  return affinitySeconds === null ? '' : `/${affinitySeconds}`;
}

function declareMemory({ family, affinitySeconds }: PortBalance): TableSet {
  const type = affinitySeconds === null ? `${toAddressType(family)} . inet_service` : toAddressType(family);
  const seconds = affinitySeconds ?? memorySeconds;
  const declaration = `type ${type}; size ${maxRemembered}; flags dynamic,timeout; timeout ${seconds}s`;
  return { kind: 'set', declaration, elements: new Map() };
}

function declareSlots(slots: readonly string[]): TableSet {
  const elements = new Map(slots.map((slot, at) => [String(at), slot]));
  return { kind: 'map', declaration: 'typeof numgen inc mod 2 : verdict', elements };
}

function toChain(rules: readonly string[]): TableChain {
  return { hook: null, rules };
}

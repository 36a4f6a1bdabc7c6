import { createHash } from 'node:crypto';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { usualWeight } from '../../lib/services/weights.ts';
import { declareGuardMap, declareVipMap, shared } from '../table/skeleton.ts';
import { declareMemory, toAddressType } from '../../lib/netfilter/nftables/declare.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import {
  type NftChain,
  type NftSet,
  type NftTable,
  emptyTable,
} from '../../lib/netfilter/nftables/ruleset.ts';
import { mergeTables } from '../table/table.ts';
import { defaultAffinitySeconds } from './port-balance.ts';
import { renderRelay } from './render-relay.ts';
import { acceptInside } from './uplinks.ts';
import { fillSlots, hashSeed, hashSlots, shareSlots, type Weights } from './slots.ts';
import { type Guard, identifyPort, nameEnd, type PortBalance, toProtocolNumber } from './balanced-service.ts';

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
  const toElements = (value: string) => new Map(keys.map((key) => [key, value]));
  const vips = (value: string): [string, NftSet] => [
    shared.vips,
    { ...declareVipMap(balance.family), elements: toElements(value) },
  ];
  const name = `lb/${identifyPort(balance)}`;
  const admission = admit(balance);
  if (balance.backends.length === 0) {
    return {
      sets: new Map([vips(`goto ${name}`), ...admission.sets]),
      chains: new Map([[name, toChain([...admission.rules, `goto ${shared.refuse}`])]]),
    };
  }
  const choice = balance.affinitySeconds === null ? choose(balance, before) : chooseKept(balance, before);
  const source = giveSource(balance);
  const translated: NftSet = {
    ...declareVipMap(balance.family),
    elements: toElements(`goto ${source.chain}`),
  };
  return {
    sets: new Map([
      vips(`goto ${name}`),
      [shared.translated, translated],
      ...admission.sets,
      ...choice.sets,
      ...source.sets,
    ]),
    chains: new Map([
      [name, toChain([...admission.rules, ...choice.rules])],
      ...choice.chains,
      ...source.chains,
    ]),
  };
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
  // nft has no other word for the type of a number; which one is given there makes no difference.
  const declaration = `typeof numgen inc mod 2 : ${value}`;
  const elements = new Map(slots.map((slot, at) => [String(at), slot]));
  return { name, count: slots.length, set: { kind: 'map', declaration, elements } };
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

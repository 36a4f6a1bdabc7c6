import type { Family } from '../../lib/net.ts';
import {
  type NftTable,
  readNftTable,
  type NftSet,
  emptyTable,
  toAddressType,
  type NftChain,
  declareHook,
  natPriority,
  listUnchangeable,
  diffObjects,
} from '../../lib/nft/table.ts';
import { nameTable, aliveSeconds, tableName } from '../../lib/api/balancer.ts';
import type { ElementChange } from '../../lib/kernel/nft-netlink.ts';
import { familyToNft } from '../../lib/kernel/port.ts';

/** Reads what `nft -n list table` printed of it; null for no table, and for one that holds what no balancer writes: it can only be replaced. */
export function readTable(text: string, family: Family): NftTable | null {
  const table = readNftTable(text, nameTable(family));
  return table === null || table.flags !== '' || table.others.length > 0 ? null : table;
}

/** One table with the objects of all. A set that several have gets the elements of all. */
export function mergeTables(tables: readonly NftTable[]): NftTable {
  const sets = new Map<string, NftSet & { readonly elements: Map<string, string> }>();
  const taken = new Set<NftSet>();
  for (const [name, set] of tables.flatMap((table) => [...table.sets])) {
    // Of long sets that all ports of a Service have.
    if (taken.has(set)) continue;
    taken.add(set);
    const known = sets.get(name) ?? { ...set, elements: new Map<string, string>() };
    for (const [key, value] of set.elements) known.elements.set(key, value);
    sets.set(name, known);
  }
  return { sets, chains: new Map(tables.flatMap((table) => [...table.chains])) };
}

/** A script that says that the balancer lives, and so has the rules of these families count. */
export function printRenewal(families: readonly Family[]): string {
  const commands = families.flatMap((family) => {
    const set = `${nameTable(family)} ${shared.alive}`;
    // Emptied first: before Linux 6.12 an element that is there keeps its time.
    return [`flush set ${set}`, `add element ${set} { ${[...transports, icmp[family]].join(', ')} }`];
  });
  return print(commands);
}

/** A script that is a step. */
export function printStep({ before, elements, after }: TableStep): string {
  return print([...before, ...elements.flatMap(printElements), ...after]);
}

function print(commands: readonly string[]): string {
  return commands.map((command) => `${command}\n`).join('');
}

/** nft takes a line of any length, and reads it in one go. */
function printElements({ family, set, removed, added }: ElementChange): string[] {
  const place = `element ${nameTable(family)} ${set}`;
  const toCommands = (verb: string, elements: readonly string[]) =>
    elements.length === 0 ? [] : [`${verb} ${place} { ${elements.join(', ')} }`];
  const texts = added.map(([key, value]) => (value === '' ? key : `${key} : ${value}`));
  return [...toCommands('delete', removed), ...toCommands('add', texts)];
}

/** A script that replaces the table whole in one transaction, whether or not there is one. */
export function printReplacement(family: Family, wanted: NftTable): string {
  const change = diffTables({ family, seen: emptyTable, wanted });
  const filled = change === null ? '' : printStep(change.now);
  return `${printRemoval(family)}add table ${nameTable(family)}\n${filled}`;
}

/** A script that removes the table, whether or not there is one. */
export function printRemoval(family: Family): string {
  // Adding before deleting makes it work where there is none.
  return print([`add table ${nameTable(family)}`, `delete table ${nameTable(family)}`]);
}

/** TCP, UDP and SCTP, as nft prints them with -n. */
const transports = ['6', '17', '132'] as const;

/** ICMP, as nft prints it with -n. */
const icmp = { ipv4: '1', ipv6: '58' } as const;

/** Behind connection tracking at -200, and before iptables' mangle chains at -150. */
const relayPriority = -155;

/** On both sides of IPVS, which has -98 in hook output. Source: ip_vs_ops4 of Linux 6.1, NF_IP_PRI_NAT_DST + 2. */
const ipvsPriorities = { before: -110, after: -90 };

/**
 * The TTL by which a node knows a packet that another one has sent on. Nodes may differ in where they send a connection: until they know
 * of a change, and by what they remember. Without it they could send a packet to each other until its TTL is over. `dup` takes one off, and
 * each router between nodes another. No client's packet has it: TTLs begin at 64, 128 or 255, and the Internet has not 32 hops in a row.
 */
export const sentOn = { first: 216, last: 223 };

/** How nft calls it. */
export function nameTtl(family: Family): 'ip ttl' | 'ip6 hoplimit' {
  return family === 'ipv6' ? 'ip6 hoplimit' : 'ip ttl';
}

/** What Services need whose connections are sent on to other nodes: `past IPVS` where kube-proxy has virtual servers for them. */
export type RelayNeeds = 'no relays' | 'relays' | 'relays past IPVS';

/** The names of what all Services share. */
export const shared = {
  alive: 'alive',
  /** Address, protocol and port to what is done with a packet to it. */
  vips: 'vips',
  /** The same, of connections that were sent elsewhere: whether they get a source of this host's. */
  translated: 'translated',
  /** The same, to what the node that holds the address does with packets from outside, before it decides about them itself. */
  relays: 'relays',
  /** Of an ICMP error, its destination, and protocol and source port of the packet that it is about: to how it follows its connection. */
  errors: 'errors',
  /** Addresses of Services to what is done with packets to ports of them that no Service has. */
  guards: 'guards',
  refuse: 'refuse',
  ownSource: 'own-source',
} as const;

/** One of the maps from what a packet is sent to, with these elements. */
export function createMap(
  family: Family,
  name: 'vips' | 'translated' | 'relays' | 'guards' | 'errors',
  elements: NftSet['elements'] = new Map(),
): NftSet {
  const port = name === 'guards' ? '' : ' . inet_proto . inet_service';
  // nft prints numbers of such keys as `toHex` does.
  const key = name === 'errors' ? `typeof ${nameErrorKey(family)}` : `type ${toAddressType(family)}${port}`;
  return { kind: 'map', declaration: `${key} : verdict`, elements };
}

/** Which ICMP messages are about a connection, and where in the packet that they carry its protocol and source port are. */
const icmpErrors = {
  ipv4: { types: 'icmp type { 3, 11, 12 }', protocol: '@th,136,8', port: '@th,224,16' },
  ipv6: { types: 'icmpv6 type 1-4', protocol: '@th,112,8', port: '@th,384,16' },
} as const;

function nameErrorKey(family: Family): string {
  const { protocol, port } = icmpErrors[family];
  return `${familyToNft[family]} daddr . ${protocol} . ${port}`;
}

/** The table without any Service; `alive` is empty, see `printRenewal`. With relays each packet is looked up in `relays`, not only the first ones. */
export function createSkeleton(family: Family, needs: RelayNeeds): NftTable {
  const ip = familyToNft[family];
  const toDispatch = (map: string) =>
    `meta l4proto @alive ${ip} daddr . meta l4proto . th dport vmap @${map}`;
  const dispatch = toDispatch(shared.vips);
  // Echo and all else of ICMP is the host's, as on each of its addresses.
  const guard = `meta l4proto @alive meta l4proto != ${icmp[family]} ${ip} daddr vmap @${shared.guards}`;
  const original = `ct original ${ip} daddr . meta l4proto . ct original proto-dst`;
  return {
    sets: new Map<string, NftSet>([
      [
        shared.alive,
        { kind: 'set', declaration: `type inet_proto; timeout ${aliveSeconds}s`, elements: new Map() },
      ],
      ...(['vips', 'translated', 'guards', 'relays'] as const).map(
        (name) => [name, createMap(family, name)] as const,
      ),
      ...(needs === 'no relays' ? [] : [[shared.errors, createMap(family, 'errors')] as const]),
    ]),
    chains: new Map<string, NftChain>([
      [shared.refuse, { hook: null, rules: ['reject with tcp reset', 'reject'] }],
      [shared.ownSource, { hook: null, rules: ['masquerade fully-random'] }],
      ...(needs === 'no relays' ? [] : sendOn(family, toDispatch(shared.relays))),
      ...(needs === 'relays past IPVS' ? hideFromIpvs(family) : []),
      [
        'prerouting',
        { hook: declareHook('nat', 'prerouting', natPriority.translate), rules: [dispatch, guard] },
      ],
      ['output', { hook: declareHook('nat', 'output', natPriority.translate), rules: [dispatch] }],
      [
        'postrouting',
        {
          hook: declareHook('nat', 'postrouting', natPriority.masquerade),
          // A rule for each protocol: nft knows the type of the original port only behind one.
          rules: transports.map(
            (protocol) => `meta l4proto ${protocol} ct status 0x20 ${original} vmap @${shared.translated}`,
          ),
        },
      ],
    ]),
  };
}

/** A router says to the Service's address that a packet does not fit, or does not arrive: so to the node that holds the address. */
function sendOn(family: Family, dispatch: string): [string, NftChain][] {
  const ofErrors = `${icmpErrors[family].types} meta l4proto @alive ${nameErrorKey(family)} vmap @${shared.errors}`;
  const hook = declareHook('filter', 'prerouting', relayPriority);
  return [['relay', { hook, rules: [dispatch, ofErrors] }]];
}

/**
 * What is sent on is a packet of this host's own to IPVS, which would take it to this host's endpoints: kube-proxy has a virtual server
 * for it. While IPVS looks, the packet has an address that no virtual server has. Nothing but hook output in between sees it.
 */
function hideFromIpvs(family: Family): [string, NftChain][] {
  const address = `${familyToNft[family]} daddr`;
  const firstBit = family === 'ipv6' ? '8000::' : '128.0.0.0';
  const rules = [`${nameTtl(family)} ${sentOn.last} ct state 0x40 ${address} set ${address} ^ ${firstBit}`];
  return Object.entries(ipvsPriorities).map(([place, order]) => [
    `${place}-ipvs`,
    { hook: declareHook('filter', 'output', order), rules },
  ]);
}

/** What one transaction does to a table. */
export interface TableStep {
  /** Commands of nft that come before the elements. */
  readonly before: readonly string[];
  readonly elements: readonly ElementChange[];
  /** Commands of nft that come after the elements. */
  readonly after: readonly string[];
}

/** Two transactions: all that packets need is in `now`. What a packet may still use in a chain whose rules are replaced goes `later`. */
export type TableChange = Readonly<Record<'now' | 'later', TableStep>>;

interface TablePair {
  readonly family: Family;
  readonly seen: NftTable;
  readonly wanted: NftTable;
}

/**
 * The steps that turn one table into the other; null where that cannot be done in place, because a hook or a declaration
 * differs. Sets that only one of both has are made or deleted, but for those named in `kept`. Pure.
 */
export function diffTables(pair: TablePair, kept: ReadonlySet<string> = new Set()): TableChange | null {
  const { family, seen, wanted } = pair;
  if (listUnchangeable(wanted, seen).length > 0) return null;
  const { create, fill, remove } = diffObjects(nameTable(family), {
    wanted: withoutSets(wanted, kept),
    seen: withoutSets(seen, kept),
  });
  const elements = diffElements(pair, kept);
  return {
    now: { before: create.map(toCommand), elements: elements.now, after: fill.map(toCommand) },
    later: { before: [], elements: elements.later, after: remove.map(toCommand) },
  };
}

const toCommand = ({ command }: { readonly command: string }) => command;

function withoutSets({ sets, chains }: NftTable, names: ReadonlySet<string>): NftTable {
  return { sets: new Map([...sets].filter(([name]) => !names.has(name))), chains };
}

type ElementChanges = Readonly<Record<'now' | 'later', readonly ElementChange[]>>;

function diffElements({ family, seen, wanted }: TablePair, kept: ReadonlySet<string>): ElementChanges {
  const names = [...new Set([...seen.sets.keys(), ...wanted.sets.keys()])];
  const changes = names
    // A removed set loses its elements with it.
    .filter((name) => wanted.sets.has(name) || kept.has(name))
    .map((name) => {
      const place = { family, table: tableName, set: name };
      return diffSet(place, seen.sets.get(name) ?? noSet, wanted.sets.get(name) ?? noSet);
    });
  return { now: changes.flatMap(({ now }) => now), later: changes.flatMap(({ later }) => later) };
}

/** Instead of one that is not there. */
const noSet: NftSet = { kind: 'set', declaration: '', elements: new Map() };

function diffSet(
  place: Pick<ElementChange, 'family' | 'table' | 'set'>,
  { declaration, elements: before }: NftSet,
  wanted: NftSet,
): ElementChanges {
  const gone = [...before.keys()].filter((key) => !wanted.elements.has(key));
  const added = [...wanted.elements].filter(([key, value]) => before.get(key) !== value);
  const replaced = added.filter(([key]) => before.has(key)).map(([key]) => key);
  // Elements that are read by their number: a rule that is being replaced may still ask for one that is to go.
  const isLate = wanted.declaration.startsWith('typeof numgen ');
  const toChanges = (change: Pick<ElementChange, 'removed' | 'added'>) => {
    const isNone = change.removed.length + change.added.length === 0;
    return isNone ? [] : [{ ...place, declaration: wanted.declaration || declaration, ...change }];
  };
  return {
    now: toChanges({ removed: isLate ? replaced : [...gone, ...replaced], added }),
    later: isLate ? toChanges({ removed: gone, added: [] }) : [],
  };
}

/**
 * What the table of a family has whatever the Services are. A packet that opens a connection to a Service's address is found
 * in `vips`, and goes to the chain of its port.
 */
import { type Family } from '../../lib/address/address.ts';
import { type Table, type TableChain, type TableSet, toWord } from './table.ts';

/** For how long packets are balanced after the balancer has last said that it lives. */
export const aliveSeconds = 30;

/** Of the elements of set `alive`: TCP, UDP and SCTP, as nft prints them with -n. */
export const aliveProtocols = ['6', '17', '132'] as const;

/** Before kube-proxy's and iptables' nat chains at -100 (dstnat) and 100 (srcnat). */
const priority = { relay: -155, translate: -105, masquerade: 95 };

/** The names of what all Services share. */
export const shared = {
  alive: 'alive',
  /** Address, protocol and port to what is done with a packet to it. */
  vips: 'vips',
  /** The same, of connections that were sent elsewhere: whether they get a source of this host's. */
  translated: 'translated',
  /** The same, to what the node that holds the address does with packets from outside, before it decides about them itself. */
  relays: 'relays',
  refuse: 'refuse',
  ownSource: 'own-source',
} as const;

/** The declaration of `vips` and `translated`. */
export function declareVipMap(family: Family): Omit<TableSet, 'elements'> {
  return { kind: 'map', declaration: `type ${toAddressType(family)} . inet_proto . inet_service : verdict` };
}

/** How nft calls the addresses of a family. */
export function toAddressType(family: Family): 'ipv4_addr' | 'ipv6_addr' {
  return family === 'ipv6' ? 'ipv6_addr' : 'ipv4_addr';
}

/**
 * The table without any Service. Set `alive` is empty: see `printRenewal`. `hasRelays` is whether `relays` has any: only then all
 * packets are looked up there, and not only the first of each connection.
 */
export function createSkeleton(family: Family, hasRelays: boolean): Table {
  const ip = toWord(family);
  const toDispatch = (map: string) =>
    `meta l4proto @alive ${ip} daddr . meta l4proto . th dport vmap @${map}`;
  const dispatch = toDispatch(shared.vips);
  const original = `ct original ${ip} daddr . meta l4proto . ct original proto-dst`;
  return {
    sets: new Map<string, TableSet>([
      [
        shared.alive,
        { kind: 'set', declaration: `type inet_proto; timeout ${aliveSeconds}s`, elements: new Map() },
      ],
      [shared.vips, { ...declareVipMap(family), elements: new Map() }],
      [shared.translated, { ...declareVipMap(family), elements: new Map() }],
      [shared.relays, { ...declareVipMap(family), elements: new Map() }],
    ]),
    chains: new Map<string, TableChain>([
      [shared.refuse, { hook: null, rules: ['reject with tcp reset', 'reject'] }],
      [shared.ownSource, { hook: null, rules: ['masquerade fully-random'] }],
      ...(hasRelays
        ? [
            [
              'relay',
              { hook: hook('prerouting', priority.relay, 'filter'), rules: [toDispatch(shared.relays)] },
            ] as const,
          ]
        : []),
      ['prerouting', { hook: hook('prerouting', priority.translate), rules: [dispatch] }],
      ['output', { hook: hook('output', priority.translate), rules: [dispatch] }],
      [
        'postrouting',
        {
          hook: hook('postrouting', priority.masquerade),
          // A rule for each protocol: nft knows the type of the original port only behind one.
          rules: aliveProtocols.map(
            (protocol) => `meta l4proto ${protocol} ct status 0x20 ${original} vmap @${shared.translated}`,
          ),
        },
      ],
    ]),
  };
}

function hook(name: string, order: number, type = 'nat'): string {
  return `type ${type} hook ${name} priority ${order}; policy accept;`;
}

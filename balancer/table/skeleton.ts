/**
 * What the table of a family has whatever the Services are. A packet that opens a connection to a Service's address is found
 * in `vips`, and goes to the chain of its port.
 */
import { aliveSeconds } from '../../lib/services/balancer-table.ts';
import { type Family } from '../../lib/address/address.ts';
import { declareHook, natPriority, toAddressType } from '../../lib/netfilter/nftables/declare.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type NftChain, type NftSet, type NftTable } from '../../lib/netfilter/nftables/ruleset.ts';

/** TCP, UDP and SCTP, as nft prints them with -n. */
const transports = ['6', '17', '132'] as const;

/** ICMP, as nft prints it with -n. */
const icmp = { ipv4: '1', ipv6: '58' } as const;

/** The elements of set `alive`. */
export function listAliveProtocols(family: Family): readonly string[] {
  return [...transports, icmp[family]];
}

/** Behind connection tracking at -200, and before iptables' mangle chains at -150. */
const relayPriority = -155;

/** On both sides of IPVS, which has -98 in hook output. Source: ip_vs_ops4 of Linux 6.1, NF_IP_PRI_NAT_DST + 2. */
const besideIpvs = { before: -110, after: -90 };

/**
 * The TTL by which a node knows a packet that another one has sent on. Nodes may differ in where they send a connection: while they hear
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

/** The declaration of `vips` and `translated`. */
export function declareVipMap(family: Family): Omit<NftSet, 'elements'> {
  return { kind: 'map', declaration: `type ${toAddressType(family)} . inet_proto . inet_service : verdict` };
}

/** The declaration of `guards`. */
export function declareGuardMap(family: Family): Omit<NftSet, 'elements'> {
  return { kind: 'map', declaration: `type ${toAddressType(family)} : verdict` };
}

/** Which ICMP messages are about a connection, and where in the packet that they carry its protocol and source port are. */
const icmpErrors = {
  ipv4: { types: 'icmp type { 3, 11, 12 }', protocol: '@th,136,8', port: '@th,224,16' },
  ipv6: { types: 'icmpv6 type 1-4', protocol: '@th,112,8', port: '@th,384,16' },
} as const;

/** The declaration of `errors`. nft prints numbers of such keys as `toHex` does. */
export function declareErrorMap(family: Family): Omit<NftSet, 'elements'> {
  return { kind: 'map', declaration: `typeof ${nameErrorKey(family)} : verdict` };
}

function nameErrorKey(family: Family): string {
  const { protocol, port } = icmpErrors[family];
  return `${familyToNft[family]} daddr . ${protocol} . ${port}`;
}

/**
 * The table without any Service. Set `alive` is empty: see `printRenewal`. Only where there are relays all packets are looked up in
 * `relays`, and not only the first of each connection.
 */
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
      [shared.vips, { ...declareVipMap(family), elements: new Map() }],
      [shared.translated, { ...declareVipMap(family), elements: new Map() }],
      [shared.guards, { ...declareGuardMap(family), elements: new Map() }],
      [shared.relays, { ...declareVipMap(family), elements: new Map() }],
      ...(needs === 'no relays'
        ? []
        : [[shared.errors, { ...declareErrorMap(family), elements: new Map() }] as const]),
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
  const ofErrors = `meta l4proto @alive ${icmpErrors[family].types} ${nameErrorKey(family)} vmap @${shared.errors}`;
  return [
    ['relay', { hook: declareHook('filter', 'prerouting', relayPriority), rules: [dispatch, ofErrors] }],
  ];
}

/**
 * What is sent on is a packet of this host's own to IPVS, which would take it to this host's endpoints: kube-proxy has a virtual server
 * for it. While IPVS looks, the packet has an address that no virtual server has. Nothing but hook output in between sees it.
 */
function hideFromIpvs(family: Family): [string, NftChain][] {
  const address = `${familyToNft[family]} daddr`;
  const firstBit = family === 'ipv6' ? '8000::' : '128.0.0.0';
  const rules = [`${nameTtl(family)} ${sentOn.last} ct state 0x40 ${address} set ${address} ^ ${firstBit}`];
  return Object.entries(besideIpvs).map(([place, order]) => [
    `${place}-ipvs`,
    { hook: declareHook('filter', 'output', order), rules },
  ]);
}

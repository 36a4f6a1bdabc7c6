import { type Family } from '../../address/address.ts';
import { type Endpoint, formatEndpoint } from '../../address/endpoint.ts';
import {
  affinityName,
  type Balance,
  listApiservers,
  type Route,
  vipChainName,
  weighWith,
  type Weights,
} from '../rules/balance.ts';
import { toChances } from '../rules/chance.ts';
import { signChain } from '../rules/signature.ts';
import { familyToNft, type NftFamily } from '../../kernel/netlink/nft-chains.ts';
import { nameOwnTable } from '../../kernel/netlink/own-table.ts';
import { matchChance } from './chance.ts';
import { declareHook, declareMemory, natPriority, toAddressType } from './declare.ts';
import { type NftChain, type NftSet, type NftTable } from './ruleset.ts';

/** A balance that a table of its own can hold: kube-proxy's chains are in another table, out of reach. */
export type TableBalance = Pick<Balance, 'vip' | 'masquerade'> & {
  /** Where new connections go; none leaves them to whoever holds the VIP. */
  readonly backends: readonly Endpoint[];
  /** For how long a client stays with its backend; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Left out where each is as likely. */
  readonly weights?: Weights | undefined;
  /** As Balance has it. */
  readonly apiservers?: readonly Endpoint[] | undefined;
};

/** Before iptables' filter chains at 0. */
const filterPriority = -5;

/** Only the packet that opens a connection, see ADR 15. */
const opening = 'tcp flags & (fin | syn | rst | ack) == syn';

/** A balance for a table; a chain of kube-proxy's cannot be joined from there. */
export function toTableBalance({ vip, masquerade, route, apiservers }: Balance): TableBalance {
  return { vip, masquerade, apiservers, ...listBackends(route) };
}

/** One family's table, as it shall be; null for no VIPs. Pure. */
export function renderNftTable(family: Family, balances: readonly TableBalance[]): NftTable | null {
  if (balances.length === 0) return null;
  const dispatch = balances.map(
    ({ vip }) => `${ip(vip)} daddr ${vip.address} tcp dport ${vip.port} ${opening} jump ${vipChainName(vip)}`,
  );
  const own = balances.filter(({ masquerade }) => masquerade !== 'none');
  const chains: (readonly [string, string | null, readonly string[]])[] = [
    ...balances.map((balance) => [vipChainName(balance.vip), null, translate(balance)] as const),
    ['prerouting', declareHook('nat', 'prerouting', natPriority.translate), dispatch],
    ['output', declareHook('nat', 'output', natPriority.translate), dispatch],
    [
      'postrouting',
      declareHook('nat', 'postrouting', natPriority.masquerade),
      own.map(({ vip }) => `${matchTranslated(vip)} masquerade fully-random`),
    ],
    [
      'forward',
      declareHook('filter', 'forward', filterPriority),
      balances.map(({ vip }) => `${matchTranslated(vip)} accept`),
    ],
    ...renderInput(balances),
  ];
  return {
    sets: new Map(balances.flatMap((balance) => declareSets(family, balance))),
    chains: new Map(chains.map(([name, hooked, rules]) => [name, toChain(name, hooked, rules)])),
  };
}

/** Replies that conntrack calls INVALID and does not translate back, see ADR 33. Without an apiserver no packet passes such a chain. */
function renderInput(balances: readonly TableBalance[]): [string, string, readonly string[]][] {
  const rules = listApiservers(balances).map(dropUntranslated);
  return rules.length === 0 ? [] : [['input', declareHook('filter', 'input', filterPriority), rules]];
}

/** The rules of the chain `input` about these apiservers, as they are written. */
export function renderInputRules(apiservers: readonly Endpoint[]): readonly string[] {
  return toChain('input', null, apiservers.map(dropUntranslated)).rules;
}

function dropUntranslated(apiserver: Endpoint): string {
  const { address, port } = apiserver;
  return `${ip(apiserver)} saddr ${address} iifname != "lo" tcp sport ${port} ct state invalid drop`;
}

/**
 * A script for `nft -f -` that replaces the table whole, in one transaction. Written for nft 0.9.8 and later: no
 * `destroy`, and numbers for priorities, because `dstnat` is refused in output chains.
 */
export function printNftTable(family: Family, { sets, chains }: NftTable): string {
  const table = nameOwnTable(family);
  const blocks = [
    ...[...sets].flatMap(([name, { kind, declaration }]) =>
      block(`${kind} ${name}`, declaration.split('; ')),
    ),
    ...[...chains].flatMap(([name, { hook: hooked, rules }]) =>
      block(`chain ${name}`, hooked === null ? rules : [hooked, ...rules]),
    ),
  ];
  // Adding before deleting makes the script work whether or not the table exists.
  return [`table ${table}`, `delete table ${table}`, `table ${table} {`, ...blocks, '}', ''].join('\n');
}

function listBackends(route: Route): Pick<TableBalance, 'backends' | 'affinitySeconds' | 'weights'> {
  switch (route.kind) {
    case 'translate':
      return {
        backends: route.backends,
        affinitySeconds: route.affinitySeconds ?? null,
        weights: route.weights,
      };
    case 'jump':
      return { backends: [], affinitySeconds: null };
  }
}

/** Each rule ends with the comment that it is known by. */
function toChain(name: string, hooked: string | null, rules: readonly string[]): NftChain {
  const signatures = signChain(name, rules);
  return {
    hook: hooked,
    rules: rules.map((rule, index) => `${rule} comment "${signatures[index] ?? ''}"`),
  };
}

/** Clients whose place is kept first; all others by chance. */
function translate(balance: TableBalance): string[] {
  const { vip, affinitySeconds } = balance;
  // Also where a set is full, which ends a rule that would add to it.
  const anywhere = chooseByChance(balance, (backend) => `dnat ${ip(vip)} to ${formatEndpoint(backend)}`);
  return affinitySeconds === null ? anywhere : [...keepPlaces(balance), ...anywhere];
}

/**
 * A rule for each backend. Not one rule with a map: a packet that is in the old chain while a new one takes
 * its place finds the old map empty, and goes past our rules (Linux 6.18).
 */
function chooseByChance({ backends, weights }: TableBalance, act: (backend: Endpoint) => string): string[] {
  return toChances(backends, weighWith(weights)).map(
    ({ choice, ...chance }) => `meta l4proto tcp ${matchChance(chance)}${act(choice)}`,
  );
}

/** Whoever is in a backend's set goes there again; whoever is in none is put into one by chance. */
function keepPlaces(balance: TableBalance): string[] {
  const { vip, backends } = balance;
  const source = `${ip(vip)} saddr`;
  const enter = (backend: Endpoint) =>
    `update @${affinityName(vip, backend)} { ${source} } dnat ${ip(vip)} to ${formatEndpoint(backend)}`;
  return [
    ...backends.map(
      (backend) => `meta l4proto tcp ${source} @${affinityName(vip, backend)} ${enter(backend)}`,
    ),
    ...chooseByChance(balance, enter),
  ];
}

/** A backend that goes takes its set along: when it comes back, its clients have another place. */
function declareSets(family: Family, { vip, backends, affinitySeconds }: TableBalance): [string, NftSet][] {
  if (affinitySeconds === null) return [];
  return backends.map((backend) => [
    affinityName(vip, backend),
    declareMemory(toAddressType(family), affinitySeconds),
  ]);
}

/** Connections that were sent elsewhere than to the VIP they asked for, in both directions. */
function matchTranslated(vip: Endpoint): string {
  return `meta l4proto tcp ct status dnat ct original ${ip(vip)} daddr ${vip.address} ct original proto-dst ${vip.port}`;
}

function ip({ family }: Endpoint): NftFamily {
  return familyToNft[family];
}

function block(head: string, lines: readonly string[]): string[] {
  return [`\t${head} {`, ...lines.map((line) => `\t\t${line}`), '\t}'];
}

import {
  type NftTable,
  type NftRuleset,
  nftLanguage,
  declareHook,
  natPriority,
  type NftChain,
  type NftSet,
  declareMemory,
  toAddressType,
  diffNftTable,
  orderChanges,
  diffObjects,
} from './table.ts';
import { type Endpoint, type Family, parseEndpoint, formatEndpoint } from '../net.ts';
import {
  type InstalledBalance,
  vipChainName,
  readWeights,
  readMethod,
  toHashSeed,
  type Method,
  areIntact,
  isAboutAny,
  readEndpoint,
  type Balance,
  listApiservers,
  type Route,
  signChain,
  toChances,
  weighWith,
  affinityName,
  type Chance,
  type Diff,
  type NftChange,
} from '../dialect.ts';
import { nameOwnTable, type NftFamily, familyToNft } from '../kernel/port.ts';

/**
 * What vipnat's table does with a VIP's connections: the state that the last agent left. Null unless the VIP's chain
 * is, to the letter, one that vipnat writes for these backends.
 */
export function readNftInstalled(table: NftTable | null, vip: Endpoint): InstalledBalance | null {
  const name = vipChainName(vip);
  const seen = table?.chains.get(name);
  if (table === null || seen === undefined) return null;
  const backends = readBackends(seen.rules);
  const affinitySeconds = readTimeout(table, name);
  // The rules that choose come last, one for each backend.
  const weights = readWeights(backends, seen.rules.slice(-backends.length).map(readPart));
  const method = readMethod(seen.rules);
  const balance = { vip, masquerade: 'own', backends, method, weights, affinitySeconds } as const;
  const written = renderNftTable(vip.family, [balance]);
  const isOwn = areIntact(written?.chains.get(name)?.rules ?? [], seen.rules, nftLanguage);
  if (!isOwn || backends.length === 0) return null;
  return { backends, affinitySeconds, ...(weights === undefined ? {} : { weights }) };
}

/** The apiservers that the rules about replies in vipnat's table name, as `readNftInstalled` has it. */
export function readNftApiservers(table: NftTable | null): Endpoint[] {
  const seen = table?.chains.get('input')?.rules ?? [];
  const named = seen.flatMap((rule) => {
    const [, address, port] = /^ip6? saddr (\S+) .*tcp sport (\d+) /.exec(rule) ?? [];
    return readEndpoint(address, port) ?? [];
  });
  const { rules } = toChain('input', null, named.map(dropUntranslated));
  return areIntact(rules, seen, nftLanguage) ? named : [];
}

/** Of `… numgen random mod 3 0 …`, `… numgen random mod 60 < 25 …`; 1 for a rule without it. */
function readPart(rule: string): number {
  const [, modulus, below] = /\bnumgen random mod (\d+) (?:< (\d+)|0)/.exec(rule) ?? [];
  return modulus === undefined ? 1 : Number(below ?? 1) / Number(modulus);
}

/** Those of `… dnat to 10.0.0.11:6443 …`, each once, in their order. */
function readBackends(rules: readonly string[]): Endpoint[] {
  const texts = rules.flatMap((rule) => /\bdnat (?:ip6? )?to (\S+)/.exec(rule)?.[1] ?? []);
  return [...new Set(texts)].map((text) => parseEndpoint(text)).filter((endpoint) => endpoint !== null);
}

function readTimeout({ sets }: NftTable, chain: string): number | null {
  const [, clients] = [...sets].find(([name]) => name.startsWith(`${chain}-`)) ?? [];
  const seconds = /\btimeout (\d+)s\b/.exec(clients?.declaration ?? '')?.[1];
  return seconds === undefined ? null : Number(seconds);
}

/**
 * The changes that take some virtual IPs out of vipnat's table of one family. These are their chains and sets, and their rules
 * in the chains that all share. The table goes whole when it has no other virtual IP. Nothing else is changed or repaired. Shared
 * chains that vipnat of this version wrote are as it would write them for the other virtual IPs (I7).
 */
export function removeVipsFromNft(
  { family, table: seen }: NftRuleset,
  vips: readonly Endpoint[],
): Diff<NftChange> {
  const nothing: Diff<NftChange> = { drift: [], changes: [] };
  if (seen === null) return nothing;
  const gone = vips.map(vipChainName);
  const chains = [...seen.chains.keys()].filter((name) => gone.includes(name));
  const sets = [...seen.sets.keys()].filter((name) => gone.some((chain) => name.startsWith(`${chain}-`)));
  const reduced = [...seen.chains]
    .filter(([name]) => !name.startsWith('VIPNAT-'))
    .flatMap(([name, { hook, rules }]) => {
      const kept = rules.filter((text) => !isAboutAny(vips, / jump (\S+)/.exec(text)?.[1], readVip(text)));
      return kept.length === rules.length
        ? []
        : [[name, { hook, rules: rewrite(name, rules, kept) }] as const];
    });
  if (chains.length === 0 && reduced.length === 0) return nothing;
  const isOther = (name: string) => name.startsWith('VIPNAT-') && !gone.includes(name);
  if (![...seen.chains.keys()].some(isOther))
    return diffNftTable({ family, wanted: null, seen }, () => false);
  const without = <T>(all: ReadonlyMap<string, T>, names: readonly string[]) =>
    [...all].filter(([name]) => !names.includes(name));
  const wanted: NftTable = {
    sets: new Map(without(seen.sets, sets)),
    chains: new Map([...without(seen.chains, chains), ...reduced]),
  };
  return {
    drift: [...chains, ...reduced.map(([name]) => name)].map((chain) => ({
      kind: 'leftover-chain',
      chain,
      message: `${chain} is left over`,
    })),
    changes: orderChanges(diffObjects(nameOwnTable(family), { wanted, seen })),
  };
}

/** Signatures count the rules before: those that stay get new ones. A chain that somebody edited, or another version wrote, keeps its texts. */
function rewrite(name: string, rules: readonly string[], kept: readonly string[]): readonly string[] {
  const before = render(name, rules);
  const after = render(name, kept);
  return before !== null && after !== null && areIntact(before, rules, nftLanguage) ? after : kept;
}

/** The rules as this version would write them; null where one is none that it writes there. */
function render(name: string, rules: readonly string[]): readonly string[] | null {
  const vips = rules.map(readVip).filter((vip) => vip !== null);
  const [first] = vips;
  if (first === undefined) return rules.length === 0 ? [] : null;
  if (vips.length < rules.length) return null;
  const common = { masquerade: 'own', backends: [], affinitySeconds: null } as const;
  const balances = vips.map((vip) => ({ vip, ...common }));
  return renderNftTable(first.family, balances)?.chains.get(name)?.rules ?? null;
}

/**
 * A balance that a table of its own can hold: kube-proxy's chains are in another table, out of reach. No backend leaves new connections to
 * whoever holds the VIP.
 */
export type TableBalance = Pick<Balance, 'vip' | 'masquerade' | 'apiservers'> &
  Pick<Extract<Route, { kind: 'translate' }>, 'backends' | 'method' | 'weights'> &
  Pick<InstalledBalance, 'affinitySeconds'>;

/** Before iptables' filter chains at 0. */
const filterPriority = -5;

/** Only the packet that opens a connection, see ADR 15. */
const opening = 'tcp flags & (fin | syn | rst | ack) == syn';

/** A balance for a table; a chain of kube-proxy's cannot be joined from there. */
export function toTableBalance({ vip, masquerade, route, apiservers }: Balance): TableBalance {
  const common = { vip, masquerade, apiservers };
  if (route.kind === 'jump') return { ...common, backends: [], affinitySeconds: null };
  const { backends, method, weights, affinitySeconds = null } = route;
  return { ...common, backends, method, weights, affinitySeconds };
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

/** Replies that conntrack calls INVALID and does not translate back, see docs/design.md. Without an apiserver no packet passes such a chain. */
function renderInput(balances: readonly TableBalance[]): [string, string, readonly string[]][] {
  const rules = listApiservers(balances).map(dropUntranslated);
  return rules.length === 0 ? [] : [['input', declareHook('filter', 'input', filterPriority), rules]];
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

/** Each rule ends with the comment that it is known by. */
function toChain(name: string, hooked: string | null, rules: readonly string[]): NftChain {
  const signatures = signChain(name, rules);
  return {
    hook: hooked,
    rules: rules.map((rule, index) => `${rule} comment "${signatures[index] ?? ''}"`),
  };
}

/** Clients whose place is kept first; all others by the method. */
function translate(balance: TableBalance): string[] {
  const { vip, affinitySeconds } = balance;
  // Also where a set is full, which ends a rule that would add to it.
  const anywhere = choose(balance, (backend) => `dnat ${ip(vip)} to ${formatEndpoint(backend)}`);
  return affinitySeconds === null ? anywhere : [...keepPlaces(balance), ...anywhere];
}

/**
 * A rule for each backend, not one rule with a map. A packet that is in the old chain while a new one takes
 * its place would find the old map empty, and skip vipnat's rules (Linux 6.18).
 */
function choose({ backends, method, weights }: TableBalance, act: (backend: Endpoint) => string): string[] {
  return toChances(backends, weighWith(weights)).map(
    (chance) => `meta l4proto tcp ${matchNftChance(chance, method)}${act(chance.choice)}`,
  );
}

/** A client in a backend's set goes there again; a client in none is put into one by the method. */
function keepPlaces(balance: TableBalance): string[] {
  const { vip, backends } = balance;
  const source = `${ip(vip)} saddr`;
  const enter = (backend: Endpoint) =>
    `update @${affinityName(vip, backend)} { ${source} } dnat ${ip(vip)} to ${formatEndpoint(backend)}`;
  return [
    ...backends.map(
      (backend) => `meta l4proto tcp ${source} @${affinityName(vip, backend)} ${enter(backend)}`,
    ),
    ...choose(balance, enter),
  ];
}

/** Removing a backend deletes its set: when the backend comes back, its clients have another place. */
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

/** The virtual IPs that have a chain in vipnat's table, as its rules name them: once for each rule. */
export function readNftVips({ table }: Pick<NftRuleset, 'table'>): Endpoint[] {
  const chains = table?.chains ?? new Map<string, never>();
  return [...chains.values()]
    .flatMap(({ rules }) => rules.map(readVip))
    .filter((vip) => vip !== null)
    .filter((vip) => chains.has(vipChainName(vip)));
}

/** Whose connections a rule of a shared chain is about; null for nobody's. */
function readVip(text: string): Endpoint | null {
  const address = /\bip6? daddr (\S+)/.exec(text)?.[1];
  const port = /\b(?:tcp dport|proto-dst) (\d+)/.exec(text)?.[1];
  return readEndpoint(address, port);
}

/**
 * The match of a rule that takes its part of the connections, with a space behind it, as nft prints it; nothing for one that takes all. In
 * turn, each rule counts what gets to it: of three, the first takes every third, and the second every other one of the rest.
 */
export function matchNftChance({ choice, weight, left }: Chance<Endpoint>, method?: Method): string {
  if (weight === left) return '';
  if (method === 'hash') return `jhash ${ip(choice)} saddr mod ${left} seed ${toHashSeed(choice)} 0 `;
  return `numgen ${method === 'rr' ? 'inc' : 'random'} mod ${left} ${weight === 1 ? '0' : `< ${weight}`} `;
}

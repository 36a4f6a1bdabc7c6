import {
  type Table,
  parseRule,
  inputChain,
  type RuleSpec,
  signRules,
  iptablesLanguage,
  isOwnChain,
  isOwnRule,
  type Ruleset,
  forwardChain,
} from './rules.ts';
import { type Endpoint, parseEndpoint, formatEndpoint, familyToBits } from '../net.ts';
import {
  type InstalledBalance,
  vipChainName,
  readWeights,
  readMethod,
  toHashSeed,
  type Method,
  type Balance,
  areIntact,
  isAboutAny,
  readEndpoint,
  listApiservers,
  type Route,
  toChances,
  weighWith,
  affinityName,
  type Chance,
  type Diff,
  type Change,
  type writtenTables,
} from '../dialect.ts';
import { deleteRules, type WantedTable } from './diff.ts';

/**
 * What vipnat's rules in the nat table do with a VIP's connections, where they translate: the state that the last agent
 * left. Null unless the VIP's chain is, to the letter, one that vipnat writes for these backends. Rules that other
 * software added or edited say nothing.
 */
export function readIptablesInstalled(nat: Table | undefined, vip: Endpoint): InstalledBalance | null {
  const seen = nat?.get(vipChainName(vip)) ?? [];
  const options = seen.map((text) => parseRule(text).options);
  const targets = new Set(options.map((option) => option.get('--to-destination') ?? ''));
  const backends = [...targets].map((text) => parseEndpoint(text)).filter((endpoint) => endpoint !== null);
  if (backends.length === 0) return null;
  const seconds = options.map((option) => option.get('--seconds')).find((text) => text !== undefined);
  const affinitySeconds = seconds === undefined ? null : Number(seconds);
  // The rules that choose come last, one for each backend.
  const parts = options.slice(-backends.length).map((option) => Number(option.get('--probability') ?? 1));
  const weights = readWeights(backends, parts);
  const masquerades = ['own', 'kube-mark'] as const;
  const method = readMethod(seen);
  const route = { kind: 'translate', backends, method, weights, affinitySeconds } as const;
  const isOwn = masquerades.some((masquerade) =>
    areWritten(vipChainName(vip), renderRoute({ vip, masquerade, route }), seen),
  );
  return isOwn ? { backends, affinitySeconds, ...(weights === undefined ? {} : { weights }) } : null;
}

/** The apiservers that vipnat's rules in the filter table name, as `readIptablesInstalled` has it; none where these rules are not intact. */
export function readIptablesApiservers(filter: Table | undefined): Endpoint[] {
  const seen = filter?.get(inputChain) ?? [];
  const named = seen.flatMap((text) => {
    const { options } = parseRule(text);
    return readEndpoint(options.get('-s'), options.get('--sport')) ?? [];
  });
  return areWritten(inputChain, named.map(dropUntranslated), seen) ? named : [];
}

function areWritten(chain: string, rules: readonly RuleSpec[], seen: readonly string[]): boolean {
  return areIntact(toTexts(signRules(chain, rules)), seen, iptablesLanguage);
}

/**
 * The changes that take some virtual IPs out of a table: their chains, and their rules in the chains that all share. A
 * shared chain that holds no other rule goes with its hooks. Nothing else is changed or repaired, and foreign rules stay
 * (I5). Shared chains that vipnat of this version wrote are as it would write them for the other virtual IPs (I7). `isLast`: no
 * other virtual IP is left in any table of this family.
 */
export function removeVips(table: Table, vips: readonly Endpoint[], isLast: boolean): Diff {
  const own = [...table.keys()].filter(isOwnChain);
  const reduced = own
    .filter((chain) => chain !== inputChain)
    .map((chain) => reduceChain(chain, table.get(chain) ?? [], vips));
  // Its rules are about apiservers: they are of use as long as any virtual IP is.
  const parts = isLast && own.includes(inputChain) ? [...reduced, dropChain(inputChain)] : reduced;
  const gone = new Set(parts.filter(({ isGone }) => isGone).map(({ chain }) => chain));
  const hooks = [...table]
    .filter(([chain]) => !isOwnChain(chain))
    .flatMap(([chain, rules]) =>
      deleteRules(
        chain,
        rules.filter((text) => isOwnRule(text) && gone.has(parseRule(text).target ?? '')),
      ),
    );
  return {
    drift: parts.flatMap(({ drift }) => drift),
    changes: [
      ...parts.flatMap(({ changes }) => changes),
      ...hooks,
      ...[...gone].map((chain): Change => ({ kind: 'delete-chain', chain })),
    ],
  };
}

interface ReducedChain extends Diff {
  readonly chain: string;
  /** Whether nothing of it is left. */
  readonly isGone: boolean;
}

function reduceChain(chain: string, rules: readonly string[], vips: readonly Endpoint[]): ReducedChain {
  const kept = rules.filter((text) => !isAboutAny(vips, parseRule(text).target, readVip(text)));
  const isTheirs = vips.some((vip) => vipChainName(vip) === chain);
  if (!isTheirs && kept.length === rules.length) return { chain, drift: [], changes: [], isGone: false };
  const dropped = dropChain(chain);
  if (isTheirs || kept.length === 0) return dropped;
  const texts = rewrite(chain, rules, kept);
  const gone = rules.filter((text) => !kept.includes(text));
  const changes =
    texts === null
      ? deleteRules(chain, gone)
      : [...dropped.changes, ...texts.map((rule): Change => ({ kind: 'append', chain, rule }))];
  return { ...dropped, changes, isGone: false };
}

/** Emptied, so that it refers to nothing. */
function dropChain(chain: string): ReducedChain {
  return {
    chain,
    drift: [{ kind: 'leftover-chain', chain, message: `${chain} is left over` }],
    changes: [{ kind: 'reset-chain', chain, exists: true }],
    isGone: true,
  };
}

/**
 * Signatures count the rules before: those that stay get new ones. Null for a chain that somebody edited, that another version wrote, or
 * whose ports are hidden: its other rules stay as they are.
 */
function rewrite(chain: string, rules: readonly string[], kept: readonly string[]): readonly string[] | null {
  const before = sign(chain, rules);
  const after = sign(chain, kept);
  return before !== null && areIntact(before, rules, iptablesLanguage) ? after : null;
}

/** The rules as this version would write them; null where one is none that it writes there. */
function sign(chain: string, rules: readonly string[]): readonly string[] | null {
  const specs = rules.map(readVip).flatMap((vip) => (vip && sharedRules[chain]?.(vip)) ?? []);
  return specs.length < rules.length ? null : toTexts(signRules(chain, specs));
}

function toTexts(rules: ReturnType<typeof signRules>): readonly string[] {
  return rules.map(({ text }) => text);
}

/**
 * The virtual IPs that have a vipnat chain, as rules in vipnat's chains name them: also those that no hook leads to now. A
 * virtual IP is named once for each rule. A foreign rule in vipnat's chains names none.
 */
export function readIptablesVips({ tables }: Pick<Ruleset, 'tables'>): Endpoint[] {
  const all = [...tables.values()].flatMap((table) => [...table]);
  const own = all.filter(([chain]) => isOwnChain(chain));
  const names = new Set(own.map(([chain]) => chain));
  return own
    .flatMap(([, rules]) => rules.map(readVip))
    .filter((vip) => vip !== null)
    .filter((vip) => names.has(vipChainName(vip)));
}

/** Whose connections a rule of a shared chain is about; null for nobody's. */
export function readVip(text: string): Endpoint | null {
  const { options } = parseRule(text);
  const address = options.get('-d') ?? options.get('--ctorigdst');
  return readEndpoint(address, options.get('--dport') ?? options.get('--ctorigdstport'));
}

/** The wanted state of one family's tables: pure, and nothing at all for no VIPs. */
export function renderTables(
  balances: readonly Balance[],
): Record<(typeof writtenTables)[number], WantedTable> {
  const own = balances.filter(({ masquerade }) => masquerade === 'own');
  return {
    filter: toTable([
      {
        chain: forwardChain,
        hooks: ['FORWARD'],
        rules: balances.map(({ vip }) => matchTranslated(vip, 'ACCEPT')),
      },
      {
        chain: inputChain,
        hooks: ['INPUT'],
        rules: listApiservers(balances).map(dropUntranslated),
      },
    ]),
    nat: toTable([
      ...balances.map((balance) => ({
        chain: vipChainName(balance.vip),
        hooks: [],
        rules: renderRoute(balance),
      })),
      {
        chain: 'VIPNAT',
        hooks: ['PREROUTING', 'OUTPUT'],
        rules: balances.map(({ vip }) => dispatch(vip)),
      },
      {
        chain: 'VIPNAT-POSTROUTING',
        hooks: ['POSTROUTING'],
        rules: own.map(({ vip }) => matchTranslated(vip, masqueradeTarget)),
      },
    ]),
  };
}

/** A shared chain without rules is not wanted at all. A VIP's own chain is wanted: for a VIP that its VIP holder serves, it is empty. */
function toTable(
  plans: readonly { chain: string; hooks: readonly string[]; rules: readonly RuleSpec[] }[],
): WantedTable {
  const used = plans.filter(({ hooks, rules }) => hooks.length === 0 || rules.length > 0);
  return {
    chains: new Map(used.map(({ chain, rules }) => [chain, rules])),
    hooks: used.flatMap(({ chain, hooks }) =>
      hooks.map((hook) => ({ chain: hook, rule: { head: '', tail: `-j ${chain}` } })),
    ),
  };
}

/** Replies that conntrack calls INVALID and does not translate back: they would be for this host itself, see docs/design.md. */
function dropUntranslated({ family, address, port }: Endpoint): RuleSpec {
  return {
    head: `-s ${address}/${familyToBits[family]} ! -i lo -p tcp`,
    tail: `-m tcp --sport ${port} -m conntrack --ctstate INVALID -j DROP`,
  };
}

/** Only the packet that opens a connection, see ADR 15. */
function dispatch(vip: Endpoint): RuleSpec {
  return {
    head: `-d ${vip.address}/${familyToBits[vip.family]} -p tcp`,
    tail: `-m tcp --dport ${vip.port} --tcp-flags FIN,SYN,RST,ACK SYN -j ${vipChainName(vip)}`,
  };
}

/**
 * With random ports, as kube-proxy has them. The kernel's own choice is the client's port. Two clients that use the same port at the
 * same moment would get the same one: the second loses its first packet, and a second. Since iptables 1.6.2.
 */
const masqueradeTarget = 'MASQUERADE --random-fully';

/** Connections that were sent elsewhere than to the VIP they asked for, in both directions. */
function matchTranslated(vip: Endpoint, target: 'ACCEPT' | typeof masqueradeTarget): RuleSpec {
  return {
    head: '-p tcp',
    tail: `-m conntrack --ctstate DNAT --ctorigdst ${vip.address} --ctorigdstport ${vip.port} -j ${target}`,
  };
}

/** A VIP's rule in each chain that all VIPs share. */
const sharedRules: Readonly<Record<string, (vip: Endpoint) => RuleSpec>> = {
  [forwardChain]: (vip) => matchTranslated(vip, 'ACCEPT'),
  VIPNAT: dispatch,
  'VIPNAT-POSTROUTING': (vip) => matchTranslated(vip, masqueradeTarget),
};

/** The rules of a VIP's own chain; none where the VIP holder's own apiserver serves it. */
export function renderRoute({ vip, route, masquerade }: Balance): RuleSpec[] {
  const rules = translate(vip, route);
  const mark = { head: '', tail: '-j KUBE-MARK-MASQ' };
  return masquerade === 'kube-mark' && rules.length > 0 ? [mark, ...rules] : rules;
}

function translate(vip: Endpoint, target: Route): RuleSpec[] {
  if (target.kind === 'jump') return [{ head: '', tail: `-j ${target.chain}` }];
  const { affinitySeconds } = target;
  return typeof affinitySeconds === 'number' ? keepPlaces(vip, target, affinitySeconds) : choose(target);
}

type Translation = Extract<Route, { kind: 'translate' }>;

/** `remember` has a match that keeps the client's place. */
function choose(
  { backends, method, weights }: Translation,
  remember: (backend: Endpoint) => string = () => '',
): RuleSpec[] {
  return toChances(backends, weighWith(weights)).map((chance) =>
    translateTo(chance.choice, matchIptablesChance(chance, method) + remember(chance.choice)),
  );
}

/**
 * A client on a backend's list goes there again; a client on none is put on one by the method. A list exists as
 * long as a rule names it. Removing a backend deletes its list: when the backend comes back, its clients have another place.
 * The kernel keeps the last 100 clients of a list unless configured otherwise (xt_recent, ip_list_tot).
 */
function keepPlaces(vip: Endpoint, target: Translation, seconds: number): RuleSpec[] {
  const mask = vip.family === 'ipv6' ? Array(8).fill('ffff').join(':') : '255.255.255.255';
  const recent = (action: string, backend: Endpoint) =>
    `-m recent ${action} --name ${affinityName(vip, backend)} --mask ${mask} --rsource `;
  return [
    ...target.backends.map((backend) =>
      translateTo(backend, recent(`--update --seconds ${seconds} --reap`, backend)),
    ),
    ...choose(target, (backend) => recent('--set', backend)),
  ];
}

/** `matches` end with a space each. */
function translateTo(endpoint: Endpoint, matches = ''): RuleSpec {
  return { head: '-p tcp', tail: `${matches}-m tcp -j DNAT --to-destination ${formatEndpoint(endpoint)}` };
}

/**
 * The match of a rule that takes its part of the connections, with a space behind it; nothing for one that takes all. In turn, each rule
 * counts what gets to it, see matchNftChance. By the client's address: the kernel's module xt_cluster, which knows 32 backends at most.
 */
export function matchIptablesChance({ choice, weight, left }: Chance<Endpoint>, method?: Method): string {
  if (weight === left) return '';
  if (method === 'rr') return `-m statistic --mode nth --every ${left} --packet 0 `;
  if (method === 'hash')
    return `-m cluster --cluster-total-nodes ${left} --cluster-local-nodemask 0x00000001 --cluster-hash-seed ${toHashSeed(choice)} `;
  return `-m statistic --mode random --probability ${(weight / left).toFixed(10)} `;
}

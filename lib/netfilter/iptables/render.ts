import { type Family } from '../../address/address.ts';
import { type Endpoint, formatEndpoint } from '../../address/endpoint.ts';
import {
  affinityName,
  type Balance,
  listApiservers,
  type Route,
  vipChainName,
  weighWith,
} from '../rules/balance.ts';
import { toChances } from '../rules/chance.ts';
import { matchChance } from './chance.ts';
import { forwardChain, inputChain, type RuleSpec } from './identity.ts';

/** A rule of ours in a chain of the kernel's. */
export interface Hook {
  readonly chain: string;
  readonly rule: RuleSpec;
}

/** What one table shall hold of ours. */
export interface WantedTable {
  readonly chains: ReadonlyMap<string, readonly RuleSpec[]>;
  readonly hooks: readonly Hook[];
}

/** The tables vipnat writes, in the order in which they are written: forwarding is allowed before it is asked for. */
export const writtenTables = ['filter', 'nat'] as const;

/** A VIP's rule in a chain that all VIPs share; null for any other chain. */
export function renderSharedRule(chain: string, vip: Endpoint): RuleSpec | null {
  return isShared(chain) ? sharedRules[chain](vip) : null;
}

/** The wanted state of one family's tables: pure, and nothing at all for no VIPs. */
export function renderTables(
  family: Family,
  balances: readonly Balance[],
): Record<(typeof writtenTables)[number], WantedTable> {
  const own = balances.filter(({ masquerade }) => masquerade === 'own');
  return {
    filter: toTable([
      {
        chain: forwardChain,
        hooks: ['FORWARD'],
        rules: balances.map(({ vip }) => sharedRules[forwardChain](vip)),
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
        rules: balances.map(({ vip }) => dispatch(family, vip)),
      },
      {
        chain: 'VIPNAT-POSTROUTING',
        hooks: ['POSTROUTING'],
        rules: own.map(({ vip }) => sharedRules['VIPNAT-POSTROUTING'](vip)),
      },
    ]),
  };
}

interface ChainPlan {
  readonly chain: string;
  readonly hooks: readonly string[];
  readonly rules: readonly RuleSpec[];
}

/** A shared chain without rules is not wanted at all; a VIP's own chain is, for empty is how a VIP that is left to its holder looks. */
function toTable(plans: readonly ChainPlan[]): WantedTable {
  const used = plans.filter(({ hooks, rules }) => hooks.length === 0 || rules.length > 0);
  return {
    chains: new Map(used.map(({ chain, rules }) => [chain, rules])),
    hooks: used.flatMap(({ chain, hooks }) =>
      hooks.map((hook) => ({ chain: hook, rule: { head: '', tail: `-j ${chain}` } })),
    ),
  };
}

/** Replies that conntrack calls INVALID and does not translate back: they would be for this host itself, see ADR 33. */
export function dropUntranslated({ family, address, port }: Endpoint): RuleSpec {
  return {
    head: `-s ${address}/${family === 'ipv6' ? 128 : 32} ! -i lo -p tcp`,
    tail: `-m tcp --sport ${port} -m conntrack --ctstate INVALID -j DROP`,
  };
}

/** Only the packet that opens a connection, see ADR 15. */
function dispatch(family: Family, vip: Endpoint): RuleSpec {
  const prefix = family === 'ipv6' ? 128 : 32;
  return {
    head: `-d ${vip.address}/${prefix} -p tcp`,
    tail: `-m tcp --dport ${vip.port} --tcp-flags FIN,SYN,RST,ACK SYN -j ${vipChainName(vip)}`,
  };
}

/**
 * With ports by chance, as kube-proxy has them: the kernel's own choice is the client's port, and two clients that come from the
 * same one at the same moment get the same one; the second loses its first packet, and a second. Since iptables 1.6.2.
 */
const masqueradeTarget = 'MASQUERADE --random-fully';

/** Connections that were sent elsewhere than to the VIP they asked for, in both directions. */
function matchTranslated(vip: Endpoint, target: 'ACCEPT' | typeof masqueradeTarget): RuleSpec {
  return {
    head: '-p tcp',
    tail: `-m conntrack --ctstate DNAT --ctorigdst ${vip.address} --ctorigdstport ${vip.port} -j ${target}`,
  };
}

const sharedRules = {
  [forwardChain]: (vip: Endpoint) => matchTranslated(vip, 'ACCEPT'),
  VIPNAT: (vip: Endpoint) => dispatch(vip.family, vip),
  'VIPNAT-POSTROUTING': (vip: Endpoint) => matchTranslated(vip, masqueradeTarget),
} as const;

function isShared(chain: string): chain is keyof typeof sharedRules {
  return Object.hasOwn(sharedRules, chain);
}

/** The rules of a VIP's own chain; none where it is left to its holder. */
export function renderRoute({ vip, route, masquerade }: Balance): RuleSpec[] {
  const rules = translate(vip, route);
  const mark = { head: '', tail: '-j KUBE-MARK-MASQ' };
  return masquerade === 'kube-mark' && rules.length > 0 ? [mark, ...rules] : rules;
}

function translate(vip: Endpoint, target: Route): RuleSpec[] {
  switch (target.kind) {
    case 'jump':
      return [{ head: '', tail: `-j ${target.chain}` }];
    case 'translate':
      return typeof target.affinitySeconds === 'number'
        ? keepPlaces(vip, target, target.affinitySeconds)
        : toChances(target.backends, weighWith(target.weights)).map(({ choice, ...chance }) =>
            translateTo(choice, matchChance(chance)),
          );
  }
}

/**
 * Whoever is on a backend's list goes there again; whoever is on none is put on one by chance. A list is there
 * as long as a rule names it: a backend that goes takes it along, and when it comes back its clients have another place.
 * The kernel keeps the last 100 clients of a list unless told otherwise (xt_recent, ip_list_tot).
 */
function keepPlaces(
  vip: Endpoint,
  { backends, weights }: Extract<Route, { kind: 'translate' }>,
  seconds: number,
): RuleSpec[] {
  const mask = vip.family === 'ipv6' ? Array(8).fill('ffff').join(':') : '255.255.255.255';
  const recent = (action: string, backend: Endpoint) =>
    `-m recent ${action} --name ${affinityName(vip, backend)} --mask ${mask} --rsource `;
  return [
    ...backends.map((backend) =>
      translateTo(backend, recent(`--update --seconds ${seconds} --reap`, backend)),
    ),
    ...toChances(backends, weighWith(weights)).map(({ choice, ...chance }) =>
      translateTo(choice, matchChance(chance) + recent('--set', choice)),
    ),
  ];
}

/** `matches` end with a space each. */
function translateTo(endpoint: Endpoint, matches = ''): RuleSpec {
  return { head: '-p tcp', tail: `${matches}-m tcp -j DNAT --to-destination ${formatEndpoint(endpoint)}` };
}

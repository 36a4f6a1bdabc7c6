import type { VipDecision, HostObservation, HostReading, LocalRouteChange } from '../agent/main.ts';
import { formatEndpoint, type Endpoint, sortEndpoints } from '../lib/net.ts';
import { isBalanced } from '../config/options.ts';
import { countApiservers } from '../agent/decide/decision.ts';
import {
  listPackets,
  type Ruleset,
  type Packet,
  parseRule,
  surelyMatches,
  splitRule,
  type Rule,
  mayMatch,
} from '../lib/iptables/rules.ts';
import type { Balance } from '../lib/dialect.ts';
import { toolName, type ForwardChain, familyToNft, ownTable } from '../lib/kernel/port.ts';
import { quoteWords } from '../lib/text.ts';
import { readIptablesVips as readFromIptables } from '../lib/iptables/vip-rules.ts';
import { readNftVips as readFromNft } from '../lib/nft/vip-rules.ts';

/** `10.0.0.50:6443 is balanced, and its rules are in sync (service-chain, 3 apiservers)`; passthrough is not called balanced. */
export function describeInSync(decision: VipDecision): string {
  const { vip, mode, backends, reason } = decision;
  const name = formatEndpoint(vip);
  return isBalanced(decision)
    ? `${name} is balanced, and its rules are in sync (${mode}, ${countApiservers(backends.length)})`
    : `${name} is NOT BALANCED (${mode}): ${reason}. Only the VIP holder's own apiserver answers`;
}

/** `kube-proxy: iptables (nft), reported at 127.0.0.1:10249`; in brackets what rules are written to. */
export function describeKubeProxy({
  proxyMode,
  dialect,
}: Pick<HostObservation, 'proxyMode' | 'dialect'>): string {
  return `kube-proxy: ${proxyMode.value} (${dialect.value}), ${proxyMode.seenIn}`;
}

/** A foreign rule that drops connections, in a chain where vipnat has no rule. */
interface DropRule {
  /** For people: `mangle FORWARD of iptables-nft`. */
  readonly place: string;
  readonly rule: string;
  /** The command that deletes it. */
  readonly deletion: string;
}

/** One sentence, without its full stop. */
export function describeDropRule({ place, rule }: DropRule): string {
  return `${place} drops balanced connections: ${rule}`;
}

/** The chains of table mangle that balanced packets pass, whatever the tables behind decide. */
const chains = ['PREROUTING', 'FORWARD', 'POSTROUTING'] as const;

/**
 * Rules right in the kernel's chains of table mangle that drop all connections to a VIP or to an apiserver, or its replies. A rule that
 * drops those of some clients is meant, and so is one behind an ACCEPT or RETURN that some may meet. Rules in other chains are not looked
 * for. Pure.
 */
export function findDropRules({
  decisions,
  observation: { rulesets },
}: Pick<HostReading, 'decisions'> & {
  readonly observation: Pick<HostReading['observation'], 'rulesets'>;
}): DropRule[] {
  return rulesets.flatMap((ruleset) => {
    const balances = decisions
      .filter((one) => isBalanced(one) && one.vip.family === ruleset.family)
      .map(toBalance);
    return chains.flatMap((chain) => findIn(ruleset, chain, listPackets(chain, balances)));
  });
}

function toBalance({ vip, backends }: VipDecision): Balance {
  const apiservers: readonly Endpoint[] = backends;
  return { vip, apiservers, masquerade: 'own', route: { kind: 'translate', backends } };
}

function findIn({ family, dialect, tables }: Ruleset, chain: string, packets: readonly Packet[]): DropRule[] {
  const tool = toolName(family, dialect);
  const rules = (tables.get('mangle')?.get(chain) ?? []).map(parseRule);
  return rules
    .filter(
      (rule, index) =>
        rule.target === 'DROP' &&
        packets.some((packet) => surelyMatches(rule, packet) && !mayPass(rules.slice(0, index), packet)),
    )
    .map(({ text }) => ({
      place: `mangle ${chain} of ${tool}`,
      rule: text,
      deletion: quoteWords([tool, '-t', 'mangle', '-D', chain, ...splitRule(text)]),
    }));
}

/** Whether one of these rules may let a packet pass by all that follow. */
function mayPass(rules: readonly Rule[], packet: Packet): boolean {
  return rules.some((rule) => ['ACCEPT', 'RETURN'].includes(rule.target ?? '') && mayMatch(rule, packet));
}

/** The chain of iptables-nft for what is forwarded. Any other chain of that table was made by nft, and iptables cannot show it. */
const iptablesChains = { ipv4: 'ip filter FORWARD', ipv6: 'ip6 filter FORWARD' } as const;

/**
 * Foreign chains that drop what is balanced and sent to apiservers on other hosts, and that no rule of vipnat can
 * overrule: an accept counts in its own chain only, and vipnat does not write to these (docs/adr/0013). Rules that
 * drop are not examined, only policies.
 */
export function findForeignDrops(
  chains: readonly ForwardChain[],
  { decisions, observation }: Pick<HostReading, 'decisions' | 'observation'>,
): ForwardChain[] {
  const families = new Set(decisions.filter(isBalanced).map(({ vip }) => vip.family));
  const kinds: readonly string[] = [...families].map((family) => familyToNft[family]);
  // Where an iptables is, vipnat makes its chain accept.
  const written = [...families]
    .filter((family) =>
      observation.rulesets.some(
        (seen) => seen.family === family && seen.dialect === 'nft' && !seen.unread.includes('filter'),
      ),
    )
    .map((family): string => iptablesChains[family]);
  return chains.filter(({ table, name, isDropping }) => {
    const [kind = ''] = table.split(' ');
    const isMet = kind === 'inet' ? families.size > 0 : kinds.includes(kind);
    return isDropping && isMet && !written.includes(`${table} ${name}`) && !table.endsWith(` ${ownTable}`);
  });
}

/** Something about this host's own connections to a VIP that a person should know, with the fix. */
export interface LocalClientWarning {
  /** A sentence without its full stop. */
  readonly text: string;
  /** What fixes it, as a command for a shell; null where there is none. */
  readonly command: string | null;
}

/**
 * What is wrong with the local routes. A missing one is an agent's to add, so without an agent nothing is said of it. Not
 * drift: rules do not depend on it. Pure.
 */
export function findLocalClientWarnings(
  { sourceRoutes, localRoutes }: Pick<HostReading, 'sourceRoutes' | 'localRoutes'>,
  isAgentHere: boolean,
): LocalClientWarning[] {
  if (localRoutes === null) {
    return [
      {
        text: 'vipnat could not read the routes of table local, so it cannot check the local clients of this host',
        command: null,
      },
    ];
  }
  return sourceRoutes.filter(({ kind }) => kind === 'remove' || isAgentHere).map(describeChange);
}

function describeChange({
  kind,
  route: { address, source },
  reason,
  command,
}: LocalRouteChange): LocalClientWarning {
  const text =
    kind === 'add'
      ? `this host connects to ${address} from ${address} itself: these connections hang when the VIP moves`
      : `vipnat left a local route behind: to ${address} from ${source} (${reason})`;
  return { text, command };
}

/** `connects to 10.0.0.50:6443 from 10.0.0.11` for each VIP that is here and has another source. Pure. */
export function describeSources({
  decisions,
  sources,
}: Pick<HostReading, 'decisions' | 'sources'>): string[] {
  return decisions.flatMap(({ vip }) => {
    const source = sources.get(vip.address);
    return source === undefined || source === vip.address
      ? []
      : [`connects to ${formatEndpoint(vip)} from ${source}`];
  });
}

/** The virtual IPs that vipnat's rules on this host are about, and that the configuration does not name; sorted. Pure. */
export function listUnnamedVips({
  observation: { rulesets, nftRulesets },
  decisions,
}: Pick<HostReading, 'observation' | 'decisions'>): Endpoint[] {
  const named = new Set(decisions.map(({ vip }) => formatEndpoint(vip)));
  const seen = [...rulesets.flatMap(readFromIptables), ...nftRulesets.flatMap(readFromNft)];
  const others = new Map(seen.map((vip) => [formatEndpoint(vip), vip]));
  return sortEndpoints([...others].filter(([text]) => !named.has(text)).map(([, vip]) => vip));
}

/** The command that puts the rules right once: it keeps those of virtual IPs that `flags` do not name. */
export function formatRunOnce(flags: string, unnamed: readonly Endpoint[]): string {
  return ['vipnat run --once', flags, formatVipFlags(unnamed)].filter((part) => part !== '').join(' ');
}

/** The command that takes away what is of these virtual IPs, and of no other. */
export function formatRemoveOnly(vips: readonly Endpoint[]): string {
  return `vipnat cleanup ${formatVipFlags(vips)}`;
}

function formatVipFlags(vips: readonly Endpoint[]): string {
  return quoteWords(vips.map((vip) => `--vip=${formatEndpoint(vip)}`));
}

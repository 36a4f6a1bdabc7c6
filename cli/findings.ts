import type {
  VipDecision,
  HostObservation,
  HostReading,
  LocalRouteChange,
  ApiserverHealth,
} from '../agent/main.ts';
import { formatEndpoint, type Endpoint, sortEndpoints } from '../lib/net.ts';
import { isBalanced } from '../config/options.ts';
import { countApiservers, findOutage, isDown } from '../agent/decide/decision.ts';
import { quoteWords } from '../lib/text.ts';
import { readIptablesVips as readFromIptables } from '../lib/iptables/vip-rules.ts';
import { readNftVips as readFromNft } from '../lib/nft/vip-rules.ts';

/** `NO APISERVER IS READY`, and who stays in use all the same; no phrase while one is ready. */
export function describeOutage(decision: VipDecision, health: HostReading['health']): string[] {
  if (findOutage(decision, health)?.isTotal !== true) return [];
  return ['NO APISERVER IS READY', `all ${decision.backends.length} stay in use`];
}

/** `dead: connection refused`: how an apiserver is that serves nobody; null of one that serves. */
export function describeDown(health: ApiserverHealth): string | null {
  if (!isDown(health)) return null;
  const { state, reason, unconfirmedFailure } = health;
  return unconfirmedFailure === undefined ? `${state}: ${reason}` : `suspected: ${unconfirmedFailure}`;
}

/** `10.0.0.50:6443 is balanced, and its rules are in sync (service-chain, 3 apiservers)`; neither passthrough nor an outage is called balanced. */
export function describeInSync(decision: VipDecision, health: HostReading['health'] = new Map()): string {
  const { vip, mode, backends, reason } = decision;
  const name = formatEndpoint(vip);
  const outage = describeOutage(decision, health);
  if (outage.length > 0) return `${name}: ${outage.join(', ')}. Its rules are in sync (${mode})`;
  return isBalanced(decision)
    ? `${name} is balanced, and its rules are in sync (${mode}, ${countApiservers(backends.length)})`
    : `${name} is NOT BALANCED (${mode}): ${reason}. Only the VIP holder's own apiserver answers`;
}

/** `kube-proxy: iptables (nft), reported at 127.0.0.1:10249`; in brackets what rules are written to. */
export function describeKubeProxy(observation: Pick<HostObservation, 'proxyMode' | 'dialect'>): string {
  const { proxyMode, dialect } = observation;
  return `kube-proxy: ${proxyMode.value} (${dialect.value}), ${proxyMode.seenIn}`;
}

/** A sentence without its full stop, and what fixes it, as a command for a shell; null where there is none. */
interface LocalClientWarning {
  readonly text: string;
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
  if (localRoutes === null) return [unreadRoutes];
  return sourceRoutes.filter(({ kind }) => kind === 'remove' || isAgentHere).map(describeChange);
}

const unreadRoutes: LocalClientWarning = {
  text: 'vipnat could not read the routes of table local, so it cannot check the local clients of this host',
  command: null,
};

function describeChange(change: LocalRouteChange): LocalClientWarning {
  const { kind, route, reason, command } = change;
  const { address, source } = route;
  const text =
    kind === 'add'
      ? `this host connects to ${address} from ${address} itself: these connections hang when the VIP moves`
      : `vipnat left a local route behind: to ${address} from ${source} (${reason})`;
  return { text, command };
}

/** `connects to 10.0.0.50:6443 from 10.0.0.11` for each VIP that is here and has another source. Pure. */
export function describeSources(reading: Pick<HostReading, 'decisions' | 'sources'>): string[] {
  const { decisions, sources } = reading;
  return decisions.flatMap(({ vip }) => {
    const source = sources.get(vip.address);
    if (source === undefined || source === vip.address) return [];
    return [`connects to ${formatEndpoint(vip)} from ${source}`];
  });
}

function listSeenVips({ observation: { rulesets, nftRulesets } }: Pick<HostReading, 'observation'>) {
  return [...rulesets.flatMap(readFromIptables), ...nftRulesets.flatMap(readFromNft)];
}

/** What to say in place of each missing rule where none of vipnat's is here; null where one is. Pure. */
export function describeBare(reading: Pick<HostReading, 'observation' | 'plan'>): string | null {
  const drift = reading.plan.tables.flatMap((table) => table.drift);
  const isAllMissing = drift.length > 0 && drift.every(({ kind }) => kind.startsWith('missing-'));
  return isAllMissing && listSeenVips(reading).length === 0 ? 'no rule of vipnat is here' : null;
}

/** The virtual IPs that vipnat's rules on this host are about, and that the configuration does not name; sorted. Pure. */
export function listUnnamedVips(reading: Pick<HostReading, 'observation' | 'decisions'>): Endpoint[] {
  const named = new Set(reading.decisions.map(({ vip }) => formatEndpoint(vip)));
  const others = new Map(listSeenVips(reading).map((vip) => [formatEndpoint(vip), vip]));
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

import { parseAddress } from '../address/address.ts';
import { type Endpoint, parseEndpoint, sortEndpoints } from '../address/endpoint.ts';
import { parseRule, type Rule } from '../netfilter/iptables/rule.ts';
import { toolName } from '../kernel/tools/tool-name.ts';
import { type Ruleset, type TableName } from '../netfilter/iptables/ruleset.ts';
import { type Sourced } from '../text/sourced.ts';
import { serviceChainName } from './service-chain.ts';
import { formatServicePort, type ServicePort } from './service-port.ts';

/** What kube-proxy has programmed for one port of one Service in one backend's tables of one family. */
export interface IptablesProxyView {
  /** The rule that sends the ClusterIP to the service's chain. Only that rule makes the chain alive: stale ones stay behind. */
  readonly liveEdge: Sourced<{ readonly clusterIp: string; readonly port: number }> | null;
  /** Whether packets from other hosts get to kube-proxy's rules at all. */
  readonly isHooked: boolean;
  /** The Service's backends behind the live edge, sorted; null without one, or when one of them cannot be read. */
  readonly backends: Sourced<readonly Endpoint[]> | null;
  /** For how long a client stays with its backend (sessionAffinity: ClientIP); null for not at all. */
  readonly affinitySeconds: number | null;
  /** The rule by which kube-proxy says that it wants the service's chain gone. */
  readonly unwanted: Sourced<string> | null;
  /** The mark that KUBE-MARK-MASQ sets; null when that chain is absent or sets none (it can become empty). */
  readonly masqueradeMark: Sourced<number> | null;
  /** Whether these are rules of its ipvs mode. */
  readonly hasIpvsRules: boolean;
  /** Whether kube-proxy was ever here, alive or not. */
  readonly hasKubeProxyChains: boolean;
}

/**
 * Reads kube-proxy's rules for a Service's port, of version 1.18 and later. Pure and total.
 * Source: pkg/proxy/iptables/proxier.go and pkg/proxy/ipvs/proxier.go, syncProxyRules.
 */
export function readIptablesProxy(ruleset: Ruleset, service: ServicePort): IptablesProxyView {
  const liveEdge = findLiveEdge(ruleset, service);
  const chain = serviceChainName(service);
  return {
    liveEdge,
    isHooked: findRules(ruleset, 'nat', 'PREROUTING', 'KUBE-SERVICES').some(
      ({ target }) => target === 'KUBE-SERVICES',
    ),
    backends: liveEdge === null ? null : findBackends(ruleset, chain),
    affinitySeconds: liveEdge === null ? null : findAffinity(ruleset, chain),
    unwanted: findUnwanted(ruleset, service, liveEdge?.value.clusterIp ?? null),
    masqueradeMark: findMasqueradeMark(ruleset),
    hasIpvsRules: findRules(ruleset, 'nat', 'KUBE-SERVICES', '--match-set KUBE-CLUSTER-IP ').length > 0,
    hasKubeProxyChains: [...ruleset.tables.values()].some(
      (table) => table.has('KUBE-SERVICES') || table.has('KUBE-PROXY-CANARY'),
    ),
  };
}

/** The ClusterIP's rule comes first: kube-proxy up to 1.23 sends external addresses to the same chain after it. */
function findLiveEdge(ruleset: Ruleset, service: ServicePort): IptablesProxyView['liveEdge'] {
  const chain = serviceChainName(service);
  for (const rule of findRules(ruleset, 'nat', 'KUBE-SERVICES', chain)) {
    const clusterIp = rule.target === chain ? readServiceAddress(rule, ruleset, service) : null;
    if (clusterIp !== null) {
      return {
        value: { clusterIp, port: service.port },
        seenIn: describeChain(ruleset, 'nat', 'KUBE-SERVICES'),
      };
    }
  }
  return null;
}

/** The address in `-d ADDRESS/32 -p tcp … --dport 443`; null for a rule that matches anything else. */
function readServiceAddress(
  { options }: Pick<Rule, 'options'>,
  { family }: Ruleset,
  { protocol, port }: ServicePort,
): string | null {
  if (options.get('-p') !== protocol || options.get('--dport') !== String(port)) return null;
  const hostPrefix = family === 'ipv6' ? '/128' : '/32';
  const destination = options.get('-d') ?? '';
  if (!destination.endsWith(hostPrefix)) return null;
  return parseAddress(destination.slice(0, -hostPrefix.length))?.text ?? null;
}

/** Half a list would look like a disagreement about which backends are alive: all or nothing. */
function findBackends(ruleset: Ruleset, chain: string): IptablesProxyView['backends'] {
  const endpointChains = findRules(ruleset, 'nat', chain, 'KUBE-SEP-')
    .map(({ target }) => target ?? '')
    .filter((target) => target.startsWith('KUBE-SEP-'));
  const found = [...new Set(endpointChains)].map((endpointChain) => findTranslation(ruleset, endpointChain));
  const backends = found.filter((endpoint) => endpoint !== null);
  if (backends.length < found.length) return null;
  return { value: sortEndpoints(backends), seenIn: describeChain(ruleset, 'nat', chain) };
}

/** `-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-…` */
function findAffinity(ruleset: Ruleset, chain: string): number | null {
  const [rule] = findRules(ruleset, 'nat', chain, '--rcheck ');
  const seconds = Number(rule?.options.get('--seconds') ?? 0);
  return Number.isSafeInteger(seconds) && seconds > 0 ? seconds : null;
}

function findTranslation(ruleset: Ruleset, chain: string): Endpoint | null {
  const rule = findRules(ruleset, 'nat', chain, '--to-destination ').find(({ target }) => target === 'DNAT');
  return parseEndpoint(rule?.options.get('--to-destination') ?? '');
}

/**
 * Without endpoints kube-proxy rejects the ClusterIP in the filter table. That half of its update succeeds even when
 * a jump of ours makes the other half fail and keeps the live edge in place (measured with kube-proxy 1.36.3).
 */
function findUnwanted(
  ruleset: Ruleset,
  service: ServicePort,
  clusterIp: string | null,
): IptablesProxyView['unwanted'] {
  const rule = findRules(ruleset, 'filter', 'KUBE-SERVICES', ` --dport ${service.port} `).find(
    ({ target, comment, ...rest }) =>
      (target === 'REJECT' || target === 'DROP') &&
      ((comment?.startsWith(`${formatServicePort(service)} has no `) ?? false) ||
        (clusterIp !== null && readServiceAddress(rest, ruleset, service) === clusterIp)),
  );
  if (rule === undefined) return null;
  return { value: rule.text, seenIn: describeChain(ruleset, 'filter', 'KUBE-SERVICES') };
}

function findMasqueradeMark(ruleset: Ruleset): IptablesProxyView['masqueradeMark'] {
  for (const { target, options } of findRules(ruleset, 'nat', 'KUBE-MARK-MASQ', 'mark ')) {
    const mark = target === 'MARK' ? readMark(options.get('--set-xmark') ?? options.get('--or-mark')) : 0;
    if (mark !== 0) return { value: mark, seenIn: describeChain(ruleset, 'nat', 'KUBE-MARK-MASQ') };
  }
  return null;
}

/** `0x4000/0x4000` or `0x4000`; 0 for anything that does not set exactly these bits, such as kube-proxy's way to clear them. */
function readMark(text: string | undefined): number {
  const match = /^(0x[0-9a-f]{1,8})(?:\/(0x[0-9a-f]{1,8}))?$/.exec(text ?? '');
  const mark = Number(match?.[1] ?? 0);
  return mark === Number(match?.[2] ?? mark) ? mark : 0;
}

/** The rules of a chain that contain a text, taken apart: only these, because KUBE-SERVICES can have 10,000 others. */
function findRules(ruleset: Ruleset, table: TableName, chain: string, text: string): Rule[] {
  const rules = ruleset.tables.get(table)?.get(chain) ?? [];
  return rules.filter((rule) => rule.includes(text)).map(parseRule);
}

function describeChain({ family, dialect }: Ruleset, table: TableName, chain: string): string {
  return `${table} ${chain} (${toolName(family, dialect)})`;
}

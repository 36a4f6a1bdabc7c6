import { type Observation, findProxyPart } from './observe/observe.ts';
import type { ServiceState } from './observe/kube-proxy.ts';
import type { Config } from '../config/options.ts';
import type { VipCandidates, Candidates } from './decide/decision.ts';
import {
  type Family,
  areSameEndpoints,
  type Endpoint,
  mapFamilies,
  sortEndpoints,
  formatEndpoint,
  type Scope,
  isAtVip,
  classifyAddress,
  countCommonBits,
} from '../lib/net.ts';
import type { Sourced } from '../lib/text.ts';
import type { LocalAddress } from '../lib/kernel/port.ts';
import type { InstalledBalance } from '../lib/dialect.ts';
import { readNftInstalled as readFromNft, readNftApiservers } from '../lib/nft/vip-rules.ts';
import {
  readIptablesInstalled as readFromIptables,
  readIptablesApiservers,
} from '../lib/iptables/vip-rules.ts';

/** The candidates of each VIP of the configuration, in its order: VIPs of one family have the same. Pure. */
export function findCandidates(seen: Observation, memory: ServiceState, config: Config): VipCandidates[] {
  const input = { observation: seen, memory, config };
  const ofFamily = new Map<Family, Candidates>();
  return config.vips.map((vip) => {
    // Reading back the rules of 200 VIPs once for each of them takes seconds.
    const candidates = ofFamily.get(vip.family) ?? findCandidatesOf(vip.family, input);
    ofFamily.set(vip.family, candidates);
    return { vip, candidates };
  });
}

/** What the sources of a family are found in. */
export interface CandidateInput {
  readonly observation: Observation;
  readonly memory: ServiceState;
  readonly config: Pick<Config, 'endpoints' | 'vips'>;
}

function findCandidatesOf(family: Family, input: CandidateInput): Candidates {
  const { observation, memory, config } = input;
  return chooseEndpoints({
    ...findLiveSources(family, input),
    family,
    configured: config.endpoints,
    remembered: memory.endpoints[family] ?? null,
    previousEndpoints: memory.previousEndpoints[family] ?? [],
    installed: listInstalled(family, observation, config.vips),
    vips: config.vips,
    addresses: observation.addresses,
  });
}

/**
 * What the API and kube-proxy report about a family. Rules that kube-proxy left behind do not count if `--endpoints` names apiservers
 * (docs/adr/0034). While the API is lost, its last report stays valid (I10), until kube-proxy's list changes. Such a change means that
 * kube-proxy has found an apiserver that answers. Pure.
 */
export function findLiveSources(
  family: Family,
  { observation, memory, config }: CandidateInput,
): Pick<EndpointSources, 'api' | 'kubeProxy'> {
  const kubeProxy = isLeftOver(family, observation, config)
    ? null
    : findProxyPart(observation.views[family], observation.proxyMode.value).backends;
  const api = memory.api?.endpoints[family] ?? null;
  if (memory.api?.isCurrent !== false) return { api, kubeProxy };
  const before = memory.proxyOnly[family] ?? [];
  const isNewer =
    kubeProxy !== null && kubeProxy.value.length > 0 && !areSameEndpoints(before, kubeProxy.value);
  return { api: isNewer ? null : api, kubeProxy };
}

function isLeftOver(
  family: Family,
  { isProxyAbsent }: Observation,
  { endpoints, vips }: CandidateInput['config'],
): boolean {
  const { admitted } = admit({ value: endpoints, seenIn: '--endpoints' }, family, vips);
  return isProxyAbsent === true && admitted.length > 0;
}

/**
 * By family, for how many seconds the Service keeps a client with its apiserver; null for not at all. The first source that knows
 * counts: the API, kube-proxy's rules, kube-proxy's rules as last seen, and vipnat's own rules for these VIPs. Pure.
 */
export function rememberAffinity(
  observation: Observation,
  vips: readonly Endpoint[],
  { api, affinity }: ServiceState,
): ServiceState['affinity'] {
  const { views, proxyMode } = observation;
  return mapFamilies((family) => {
    // Only a Service that the API reported has ClusterIPs.
    if (api !== null && Object.keys(api.clusterIps).length > 0) return api.affinitySeconds;
    const { backends, affinitySeconds } = findProxyPart(views[family], proxyMode.value);
    if (backends !== null) return affinitySeconds;
    return affinity[family] ?? findWrittenAffinity(family, observation, vips);
  });
}

/** There is one Service: of VIPs that contradict each other the longest time is taken, in whatever order they are. */
function findWrittenAffinity(family: Family, observation: Observation, vips: readonly Endpoint[]) {
  const seconds = vips
    .filter((vip) => vip.family === family)
    .flatMap((vip) => findInstalled(vip, observation)?.affinitySeconds ?? []);
  return seconds.length === 0 ? null : Math.max(...seconds);
}

/** Where the apiservers of one family may be known from. */
export interface EndpointSources {
  readonly family: Family;
  /** What the Kubernetes API lists. */
  readonly api: Sourced<readonly Endpoint[]> | null;
  /** What kube-proxy has programmed, in the mode it runs in. */
  readonly kubeProxy: Sourced<readonly Endpoint[]> | null;
  /** `--endpoints`, of any family. */
  readonly configured: readonly Endpoint[];
  /** What the API, kube-proxy or `--endpoints` named last, to this process or the one before. */
  readonly remembered: Sourced<readonly Endpoint[]> | null;
  /** Who was named once and no longer is. */
  readonly previousEndpoints: readonly Endpoint[];
  /** What this host's intact vipnat rules send connections to: the memory of an agent that is gone. */
  readonly installed: readonly Endpoint[];
  /** The VIPs: as a backend each would be a loop. */
  readonly vips: readonly Endpoint[];
  /** This host's own, of any family. */
  readonly addresses: readonly LocalAddress[];
}

/**
 * The apiservers to balance over, from the first source that knows any: the API, kube-proxy, the configuration, memory
 * (docs/design.md, docs/adr/0012). An empty list says who was named and refused, or what was read.
 */
export function chooseEndpoints(sources: EndpointSources): Candidates {
  const { family, api, kubeProxy, configured, remembered, previousEndpoints, installed, vips, addresses } =
    sources;
  const refusals: Refusal[] = [];
  const candidates = [
    api,
    kubeProxy,
    { value: configured, seenIn: '--endpoints' },
    remembered,
    { value: installed, seenIn: "vipnat's own rules" },
  ].filter((candidate) => candidate !== null);
  for (const [index, candidate] of candidates.entries()) {
    const admission = admit(candidate, family, vips);
    const isLive = candidate === api || candidate === kubeProxy;
    refusals.push(...admission.refused.map((refusal) => (isLive ? addRemedy(refusal) : refusal)));
    const { admitted } = admission;
    if (admitted.length > 0) {
      const isFromApi = candidate === api;
      const others = [...candidates.slice(index + 1).flatMap(({ value }) => value), ...previousEndpoints];
      const named = without(admit({ value: others, seenIn: '' }, family, vips).admitted, admitted);
      const own = findOwnEndpoint({ family, addresses, vips, listed: admitted, others: named });
      const { seenIn } = candidate;
      const fallbackEndpoints = without(named, own === null ? [] : [own]);
      const unused = isLive ? describeUnused({ value: admitted, seenIn }, { configured, family, vips }) : [];
      const refused = [...listOnce(refusals).map(({ sentence }) => sentence), ...unused];
      return { value: sortEndpoints(admitted), seenIn, refused, isFromApi, isLive, fallbackEndpoints, own };
    }
  }
  const once = listOnce(refusals);
  const nobody = `${api === null ? '' : 'the API, '}kube-proxy's rules and --endpoints name none`;
  const seenIn = once.length > 0 ? describeRefused(once) : nobody;
  const refused = once.map(({ sentence }) => sentence);
  return { value: [], seenIn, refused, isFromApi: false, isLive: false, fallbackEndpoints: [], own: null };
}

/** An option that a source before it outranks, where it names somebody whom that one does not. */
function describeUnused(
  { value, seenIn }: Sourced<readonly Endpoint[]>,
  { configured, family, vips }: Pick<EndpointSources, 'configured' | 'family' | 'vips'>,
): string[] {
  const listed = new Set(value.map(formatEndpoint));
  const { admitted } = admit({ value: configured, seenIn: '--endpoints' }, family, vips);
  const unused = admitted.map(formatEndpoint).filter((text) => !listed.has(text));
  const named = unused.slice(0, maxNamed).join(', ');
  return unused.length === 0
    ? []
    : [`--endpoints names ${named}, and ${seenIn} does not. vipnat uses the list of ${seenIn}`];
}

/** Only of what the cluster names now: what was remembered may be an address that no apiserver has any more. */
function addRemedy(refusal: Refusal): Refusal {
  if (!refusal.isAtVip) return refusal;
  const remedy = "Set --advertise-address of each kube-apiserver to its own host's address";
  return { ...refusal, sentence: `${refusal.sentence}. ${remedy}` };
}

/** Where several sources name an apiserver, the first one counts. */
function listOnce(refusals: readonly Refusal[]): Refusal[] {
  const complaints = refusals.map(({ complaint }) => complaint);
  return refusals.filter(({ complaint }, index) => complaints.indexOf(complaint) === index);
}

/** A reason is one line, however many are refused. */
const maxNamed = 3;

function describeRefused(refusals: readonly Refusal[]): string {
  const named = refusals.slice(0, maxNamed).map(({ complaint }) => complaint);
  const rest = refusals.length - named.length;
  const end = rest === 0 ? '' : `, and ${rest} more`;
  return `no source lists a usable one: ${named.join(', ')}${end}`;
}

/** Those that are not among others, sorted. */
function without(endpoints: readonly Endpoint[], others: readonly Endpoint[]): Endpoint[] {
  const texts = new Set(others.map(formatEndpoint));
  return sortEndpoints(endpoints.filter((endpoint) => !texts.has(formatEndpoint(endpoint))));
}

/** Keeps what the API, kube-proxy or `--endpoints` named last, for the time when none does but the apiservers are there. */
export function rememberEndpoints(
  remembered: Sourced<readonly Endpoint[]> | null,
  known: Sourced<readonly Endpoint[]> | null,
): Sourced<readonly Endpoint[]> | null {
  if (known === null || known.value.length === 0) return remembered;
  if (remembered !== null && areSameEndpoints(remembered.value, known.value)) return remembered;
  return { value: known.value, seenIn: `last seen in ${known.seenIn}` };
}

/** So many are remembered: whoever replaces masters for years shall not have them all asked. */
const maxPrevious = 8;

/** Keeps whom the sources do not name any more, the latest first. `before` and `after` are what they named. */
export function rememberPrevious(
  previousEndpoints: readonly Endpoint[],
  before: readonly Endpoint[],
  after: readonly Endpoint[],
): readonly Endpoint[] {
  const named = new Set(after.map(formatEndpoint));
  const kept = new Map([...before, ...previousEndpoints].map((one) => [formatEndpoint(one), one]));
  return [...kept].flatMap(([text, endpoint]) => (named.has(text) ? [] : [endpoint])).slice(0, maxPrevious);
}

/** Twenty times the largest control plane anybody runs. */
export const maxEndpoints = 100;

/** Why what a source names is not used as an apiserver. */
interface Refusal {
  /** `10.0.0.50:6443 is at a virtual IP` */
  readonly complaint: string;
  /** For people, with the source. */
  readonly sentence: string;
  readonly isAtVip: boolean;
}

const complaints: Readonly<Record<Exclude<Scope, 'unicast'>, string>> = {
  unspecified: 'an unspecified address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local address',
  multicast: 'a multicast address',
  broadcast: 'a broadcast address',
  ipv4Mapped: 'an IPv4 address in IPv6 form',
};

/**
 * Which apiservers of a family are accepted from a source, and why the others are not: whatever is balanced over becomes a
 * rule. One at a virtual IP would be a loop, and a source with more than any control plane has is not one of apiservers. Pure.
 */
export function admit(
  { value, seenIn }: Sourced<readonly Endpoint[]>,
  family: Family,
  vips: readonly Endpoint[],
): { readonly admitted: readonly Endpoint[]; readonly refused: readonly Refusal[] } {
  const own = value.filter((endpoint) => endpoint.family === family);
  if (own.length > maxEndpoints) {
    const complaint = `the list names ${own.length} apiservers, more than a control plane has`;
    const sentence = `${complaint}. vipnat uses no apiserver of this list (${seenIn})`;
    return { admitted: [], refused: [{ complaint, sentence, isAtVip: false }] };
  }
  const judged = own.map((endpoint) => ({ endpoint, what: findComplaint(endpoint, vips) }));
  return {
    admitted: judged.filter(({ what }) => what === null).map(({ endpoint }) => endpoint),
    refused: judged.flatMap(({ endpoint, what }) => {
      if (what === null) return [];
      const complaint = `${formatEndpoint(endpoint)} is ${what}`;
      const sentence = `${complaint}, so vipnat does not use it as an apiserver (${seenIn})`;
      return [{ complaint, sentence, isAtVip: isAtVip(endpoint, vips) }];
    }),
  };
}

function findComplaint(endpoint: Endpoint, vips: readonly Endpoint[]): string | null {
  if (isAtVip(endpoint, vips)) return 'the address of a virtual IP';
  const { family, address } = endpoint;
  const scope = classifyAddress({ family, text: address });
  return scope === 'unicast' ? null : complaints[scope];
}

/** How this host's own apiserver is found, in one family. */
export interface OwnSources extends Pick<EndpointSources, 'family' | 'addresses' | 'vips'> {
  /** The apiservers that the first source names: they give the port. */
  readonly listed: readonly Endpoint[];
  /** Whom other sources name. */
  readonly others: readonly Endpoint[];
}

/** The addresses of Services, which are no host's (kube-proxy's ipvs mode). */
const serviceDevice = 'kube-ipvs0';

/**
 * Where this host's own apiserver would be if it had one that nobody lists: its address may have changed since the lists
 * were made. One that another source names, else at the address most like the VIPs and the other masters: a pod network's is
 * not. Null where one of this host's is listed, and where nobody is. Pure.
 */
export function findOwnEndpoint({ family, addresses, vips, listed, others }: OwnSources): Endpoint | null {
  const { port } = listed[0] ?? {};
  const own = addresses.filter((one) => one.family === family && isHostAddress(one, vips));
  const texts = new Set(own.map(({ address }) => address));
  if (port === undefined || listed.some(({ address }) => texts.has(address))) return null;
  const named = others.find(({ address }) => texts.has(address));
  if (named !== undefined) return named;
  const peers = [...vips, ...listed].filter((one) => one.family === family);
  const likeness = ({ address }: LocalAddress) =>
    Math.max(...peers.map((peer) => countCommonBits(address, peer.address)));
  const [best] = own.toSorted((a, b) => likeness(b) - likeness(a));
  return best === undefined ? null : { family, address: best.address, port };
}

function isHostAddress({ family, address, device }: LocalAddress, vips: readonly Endpoint[]): boolean {
  if (device === serviceDevice || vips.some((vip) => vip.address === address)) return false;
  return classifyAddress({ family, text: address }) === 'unicast';
}

type SeenRules = Pick<Observation, 'rulesets' | 'nftRulesets' | 'dialect'>;

/** All of a family, those that packets get to first. Also the other dialects': the choice may have changed since they were written. */
function listRulesets(family: Family, { rulesets, nftRulesets, dialect }: SeenRules) {
  return [...rulesets, ...nftRulesets]
    .filter((seen) => seen.family === family)
    .toSorted((a, b) => Number(b.dialect === dialect.value) - Number(a.dialect === dialect.value));
}

/** What vipnat's rules do with a VIP, by an agent that may be gone: those that packets get to come first. Pure. */
export function findInstalled(
  vip: Endpoint,
  observation: SeenRules & Pick<Observation, 'views'>,
): InstalledBalance | null {
  const service = observation.views[vip.family].ipvs.server?.value;
  const written = listRulesets(vip.family, observation).map((seen) =>
    seen.dialect === 'nftables'
      ? readFromNft(seen.table, vip)
      : readFromIptables(seen.tables.get('nat'), vip),
  );
  const found = written.find((one) => one !== null) ?? null;
  // Rules of the mode cluster-ip read like those to one apiserver, and the Service's virtual server is none.
  const isService = ({ address, port }: Endpoint) => address === service?.clusterIp && port === service.port;
  return found === null || found.backends.some(isService) ? null : found;
}

/** The apiservers of a family whose replies vipnat's rules are about, of the dialect that rules are written to or else of another. Pure. */
export function listAnswering(family: Family, observation: SeenRules): readonly Endpoint[] {
  const found = listRulesets(family, observation).map((seen) =>
    seen.dialect === 'nftables'
      ? readNftApiservers(seen.table)
      : readIptablesApiservers(seen.tables.get('filter')),
  );
  return found.find((one) => one.length > 0) ?? [];
}

/** The apiservers that vipnat's rules send connections to, whichever of these VIPs they are for, sorted. Pure. */
export function listInstalled(
  family: Family,
  observation: Parameters<typeof findInstalled>[1],
  vips: readonly Endpoint[],
): Endpoint[] {
  const written = vips
    .filter((vip) => vip.family === family)
    .flatMap((vip) => findInstalled(vip, observation)?.backends ?? []);
  return sortEndpoints(written);
}

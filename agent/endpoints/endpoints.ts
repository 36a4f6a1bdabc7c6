import {
  areSameEndpoints,
  type Endpoint,
  formatEndpoint,
  sortEndpoints,
} from '../../lib/address/endpoint.ts';
import { type Family } from '../../lib/address/address.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';
import { admit, type Refusal } from './admission.ts';
import { findOwnEndpoint, without } from './own.ts';

/** The apiservers to balance over, where they are known from, and who was refused on the way to them. */
export interface Candidates extends Sourced<readonly Endpoint[]> {
  /** Whether it is the Kubernetes API that they are known from. */
  readonly isFromApi: boolean;
  /** Whether they are known from a source that hears of changes: the API or kube-proxy. */
  readonly isLive: boolean;
  readonly refused: readonly string[];
  /** Apiservers that other sources list, or any source listed before: used when no listed one is healthy. */
  readonly fallbackEndpoints: readonly Endpoint[];
  /** Where this host's own apiserver would be, used when no other one is healthy. Null if a source lists it. */
  readonly own: Endpoint | null;
}

/** The sources that are notified of changes, for one family. */
export interface LiveSources {
  /** What the Kubernetes API lists. */
  readonly api: Sourced<readonly Endpoint[]> | null;
  /** What kube-proxy has programmed, in the mode it runs in. */
  readonly kubeProxy: Sourced<readonly Endpoint[]> | null;
}

/** Where the apiservers of one family may be known from. */
export interface EndpointSources extends LiveSources {
  readonly family: Family;
  /** `--endpoints`, of any family. */
  readonly configured: readonly Endpoint[];
  /** What the API, kube-proxy or `--endpoints` named last, to this process or the one before. */
  readonly remembered: Sourced<readonly Endpoint[]> | null;
  /** Who was named once and no longer is. */
  readonly previousEndpoints: readonly Endpoint[];
  /** What our own intact rules in the kernel send connections to: the memory of an agent that is gone. */
  readonly installed: readonly Endpoint[];
  /** The VIPs: as a backend each would be a loop. */
  readonly vips: readonly Endpoint[];
  /** This host's own, of any family. */
  readonly addresses: readonly LocalAddress[];
}

/**
 * The apiservers to balance over, from the first source that knows any: the API, kube-proxy, the configuration, memory
 * (docs/adr/0003, docs/adr/0012). An empty list tells who was named and refused, or what was looked at.
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
    refusals.push(...admission.refused.map((refusal) => (isLive ? addWayOut(refusal) : refusal)));
    const { admitted } = admission;
    if (admitted.length > 0) {
      const isFromApi = candidate === api;
      const others = [...candidates.slice(index + 1).flatMap(({ value }) => value), ...previousEndpoints];
      const named = findFallback(admit({ value: others, seenIn: '' }, family, vips).admitted, admitted);
      const own = findOwnEndpoint({ family, addresses, vips, listed: admitted, others: named });
      const { seenIn } = candidate;
      const fallbackEndpoints = without(named, own);
      const unused = isLive ? describeUnused({ value: admitted, seenIn }, { configured, family, vips }) : [];
      const refused = [...listOnce(refusals).map(({ sentence }) => sentence), ...unused];
      return { value: sortEndpoints(admitted), seenIn, refused, isFromApi, isLive, fallbackEndpoints, own };
    }
  }
  const once = listOnce(refusals);
  const seenIn = once.length > 0 ? describeRefused(once) : describeSilence(api !== null);
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
function addWayOut(refusal: Refusal): Refusal {
  if (!refusal.isAtVip) return refusal;
  const wayOut = "Set --advertise-address of each kube-apiserver to its own host's address";
  return { ...refusal, sentence: `${refusal.sentence}. ${wayOut}` };
}

/** Of what several sources name, the first one's word. */
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

function describeSilence(hasApi: boolean): string {
  return `${hasApi ? 'the API, ' : ''}kube-proxy's rules and --endpoints name none`;
}

function findFallback(others: readonly Endpoint[], chosen: readonly Endpoint[]): Endpoint[] {
  const texts = new Set(chosen.map(formatEndpoint));
  return sortEndpoints(others.filter((endpoint) => !texts.has(formatEndpoint(endpoint))));
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
  const kept = new Map(
    [...before, ...previousEndpoints].map((endpoint) => [formatEndpoint(endpoint), endpoint]),
  );
  return [...kept].flatMap(([text, endpoint]) => (named.has(text) ? [] : [endpoint])).slice(0, maxPrevious);
}

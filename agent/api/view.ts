import { families, type Family, parseAddress } from '../../lib/address/address.ts';
import { type Endpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { classifyAddress } from '../../lib/address/scope.ts';
import { kubernetesService } from '../../lib/kube-proxy/kubernetes-service.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type ApiView } from './cluster-api.ts';
import { quoteForeign } from '../../lib/kubernetes/errors.ts';
import { type EndpointSlice, type Service } from '../../lib/kubernetes/resources.ts';

/** The API's own default for sessionAffinity ClientIP, and its bounds (core/v1 DefaultClientIPServiceAffinitySeconds). */
const defaultAffinitySeconds = 10_800;
/** The most that the API takes for it. */
export const maxAffinitySeconds = 86_400;

/** A broken list names many: a few show what is wrong. */
const maxRefused = 5;

const familyToAddressType: Readonly<Record<Family, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' };

/** What the API has said comes to. Null is for what it has not said yet. Pure. */
export function toApiView(
  slices: readonly EndpointSlice[] | null,
  service: Service | null,
  isCurrent: boolean,
): ApiView {
  const readings = (slices ?? []).map(readSlice);
  const found = families.map(
    (family) => [family, join(readings.filter((one) => one.family === family))] as const,
  );
  const affinity = readAffinity(service);
  const refused = [...readings.flatMap((one) => one.refused), ...affinity.refused];
  return {
    endpoints: Object.fromEntries(found.filter(([, finding]) => finding !== null)),
    clusterIps: readClusterIps(service),
    affinitySeconds: affinity.seconds,
    refused: refused.slice(0, maxRefused),
    isCurrent,
  };
}

interface SliceReading {
  readonly name: string;
  readonly family: Family | null;
  readonly endpoints: readonly Endpoint[];
  readonly refused: readonly string[];
}

function readSlice(slice: EndpointSlice): SliceReading {
  const { name } = slice.metadata;
  const where = nameSlices([name]);
  const family = families.find((one) => familyToAddressType[one] === slice.addressType) ?? null;
  const port = findPort(slice);
  // A null condition is to be taken as ready (discovery/v1 EndpointConditions).
  const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
  const texts = ready.flatMap(({ addresses }) => addresses);
  if (texts.length === 0) return { name, family, endpoints: [], refused: [] };
  if (family === null || port === null) {
    const what =
      family === null ? `addresses of type ${quoteForeign(slice.addressType)}` : 'no TCP port named https';
    return { name, family, endpoints: [], refused: [`vipnat does not use ${where}: it has ${what}`] };
  }
  const read = texts.map((text) => ({ text, address: parseAddress(text) }));
  const isRight = ({ address }: (typeof read)[number]) => address?.family === family;
  return {
    name,
    family,
    endpoints: read.filter(isRight).map(({ address }) => ({ family, address: address?.text ?? '', port })),
    refused: read
      .filter((one) => !isRight(one))
      .map(
        ({ text }) =>
          `${JSON.stringify(quoteForeign(text))} is not an ${familyToAddressType[family]} address, so vipnat does not use it as an apiserver (${where})`,
      ),
  };
}

/** The port named https, or the only one. */
function findPort({ ports }: EndpointSlice): number | null {
  const all = ports ?? [];
  const chosen =
    all.find(({ name }) => name === kubernetesService.portName) ?? (all.length === 1 ? all[0] : undefined);
  const isTcp = (chosen?.protocol ?? 'TCP') === 'TCP';
  const port = chosen?.port ?? 0;
  return isTcp && isPort(port) ? port : null;
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port > 0 && port < 65_536;
}

function join(readings: readonly SliceReading[]): Sourced<readonly Endpoint[]> | null {
  if (readings.length === 0) return null;
  const names = readings.map(({ name }) => name).sort();
  return { value: sortEndpoints(readings.flatMap(({ endpoints }) => endpoints)), seenIn: nameSlices(names) };
}

function nameSlices(names: readonly string[]): string {
  return `the API's EndpointSlice${names.length === 1 ? '' : 's'} ${names.join(', ')}`;
}

/** `None`, and whatever no Service can have, is none. */
function readClusterIps(service: Service | null): ApiView['clusterIps'] {
  const { clusterIP, clusterIPs } = service?.spec ?? {};
  const texts = [...(clusterIPs ?? []), clusterIP ?? ''];
  const addresses = texts.map(parseAddress).filter((address) => address !== null);
  const usable = addresses.filter((address) => classifyAddress(address) === 'unicast');
  return Object.fromEntries(usable.reverse().map(({ family, text }) => [family, text]));
}

function readAffinity(service: Service | null): { seconds: number | null; refused: readonly string[] } {
  const { sessionAffinity, sessionAffinityConfig } = service?.spec ?? {};
  if (sessionAffinity !== 'ClientIP') return { seconds: null, refused: [] };
  const seconds = sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds;
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= maxAffinitySeconds)
    return { seconds, refused: [] };
  const sentence = `${seconds} s is not a valid time for session affinity, so vipnat uses ${defaultAffinitySeconds} s (the API's Service kubernetes)`;
  return { seconds: defaultAffinitySeconds, refused: [sentence] };
}

import { type Family, parseAddress, formatEndpoint, type Address, classifyAddress } from '../net.ts';
import { type ServiceSlice, slice, endpoint, endpointSlices } from './service.ts';
import * as z from 'zod/mini';
import {
  metadata,
  managedByLabel,
  apiGroup,
  earlyServiceLabel,
  podAnnotations,
  weightsAnnotation,
  type Condition,
  condition,
  gateType,
  gateTypesAnnotation,
  electionLease,
  webhookName,
  type LabelSelector,
} from './vipnat.ts';
import { name, narrow, type Resource, type NamespacedName, readJson } from '../kubernetes/client.ts';
import { type Lease, type Node, isNodeReady } from './node.ts';

/** Which of a Service's ports, in which family. */
interface PortQuery {
  readonly family: Family;
  /** Its name in the Service; empty for a port without one. */
  readonly name: string;
  /** `TCP`, `UDP` or `SCTP`. */
  readonly protocol: string;
  /** Addresses to weights; those that are not there have the usual one. */
  readonly weights?: ReadonlyMap<string, number>;
}

/** One endpoint of one port. */
export interface Backend {
  readonly address: string;
  readonly port: number;
  /** The node that it runs on; null where nobody says. */
  readonly node: string | null;
  readonly zone: string | null;
  /** Takes new connections. The API says so of all endpoints where the Service publishes addresses that are not ready. */
  readonly isReady: boolean;
  /** It takes its leave: its pod is being deleted. */
  readonly isEnding: boolean;
  /** It ends, and still answers. */
  readonly isServingLast: boolean;
  /** How many connections it gets, compared with the others; 0 for none, unless all have 0. */
  readonly weight: number;
  /** Whose clients it is for, by the Service's trafficDistribution; empty for everybody's. */
  readonly forZones: readonly string[];
  readonly forNodes: readonly string[];
}

type SliceEndpoint = NonNullable<ServiceSlice['endpoints']>[number];
type ServicePort = NonNullable<ServiceSlice['ports']>[number];

/**
 * The endpoints of a port in the slices of its Service: each once, by address and port, and a sentence for each that cannot be used. None
 * may have one of `vips`, the addresses of Services, which would lead back here. The address of a node is one as any other, on this node
 * too: a program may serve there.
 */
export function listBackends(
  slices: readonly ServiceSlice[],
  query: PortQuery,
  vips: Pick<ReadonlySet<string>, 'has'>,
): { readonly backends: readonly Backend[]; readonly refused: readonly string[] } {
  const textToBackend = new Map<string, Backend>();
  const refused = new Set<string>();
  for (const { slice, port } of findSlices(slices, query)) {
    for (const endpoint of slice.endpoints ?? []) {
      // Of several addresses the first counts: all are the same pod's. Source: discovery/v1, Endpoint.addresses.
      const [text = ''] = endpoint.addresses;
      const address = parseAddress(text);
      const reason = judgeAddress(address, query, vips);
      if (address === null || reason !== null) {
        refused.add(
          `EndpointSlice ${slice.metadata.namespace}/${slice.metadata.name} names ${text}, ${reason ?? ''}`,
        );
        continue;
      }
      const weight = query.weights?.get(address.text) ?? usualWeight;
      const backend = toBackend(endpoint, { address: address.text, port, weight });
      const key = formatEndpoint({ family: query.family, address: address.text, port });
      textToBackend.set(key, mergeBackends(textToBackend.get(key), backend));
    }
  }
  const backends = [...textToBackend].sort(([one], [other]) => (one < other ? -1 : 1));
  return { backends: backends.map(([, backend]) => backend), refused: [...refused] };
}

/**
 * Those who take new connections: those who are ready, or if none is, those who end and still answer (kube-proxy does the same). Of
 * these, those who have a weight, or if none has, all.
 */
export function chooseServing(backends: readonly Backend[]): readonly Backend[] {
  const ready = backends.filter(({ isReady }) => isReady);
  const serving = ready.length > 0 ? ready : backends.filter(({ isServingLast }) => isServingLast);
  const weighted = serving.filter(({ weight }) => weight > 0);
  return weighted.length > 0 ? weighted : serving;
}

/** Those near this node, where hints say for all who is near whom, and somebody is near it; else all (kube-proxy does the same). */
export function chooseNear(
  backends: readonly Backend[],
  { node, zone }: { readonly node: string; readonly zone: string | null },
): readonly Backend[] {
  const forNode = selectHinted(backends, ({ forNodes }) => forNodes, node);
  if (forNode.length > 0) return forNode;
  const forZone = zone === null ? [] : selectHinted(backends, ({ forZones }) => forZones, zone);
  return forZone.length > 0 ? forZone : backends;
}

function selectHinted(
  backends: readonly Backend[],
  readHints: (backend: Backend) => readonly string[],
  place: string,
): readonly Backend[] {
  if (backends.some((backend) => readHints(backend).length === 0)) return [];
  return backends.filter((backend) => readHints(backend).includes(place));
}

function findSlices(slices: readonly ServiceSlice[], { family, name, protocol }: PortQuery) {
  const addressType = family === 'ipv6' ? 'IPv6' : 'IPv4';
  return slices
    .filter((slice) => slice.addressType === addressType)
    .flatMap((slice) => {
      const isIt = (one: ServicePort) => (one.name ?? '') === name && (one.protocol ?? 'TCP') === protocol;
      const port = slice.ports?.find(isIt)?.port ?? 0;
      return Number.isInteger(port) && port >= 1 && port <= 65_535 ? [{ slice, port }] : [];
    });
}

/** Why an endpoint cannot be used; null when it can. */
function judgeAddress(
  address: Address | null,
  { family }: PortQuery,
  vips: Pick<ReadonlySet<string>, 'has'>,
) {
  if (address?.family !== family) return `which is not an ${family === 'ipv6' ? 'IPv6' : 'IPv4'} address`;
  if (classifyAddress(address) !== 'unicast')
    return `which is not an address of a pod (${classifyAddress(address)})`;
  return vips.has(address.text) ? 'which is the address of a Service' : null;
}

function toBackend(endpoint: SliceEndpoint, place: Pick<Backend, 'address' | 'port' | 'weight'>): Backend {
  const { nodeName = null, zone = null, hints, conditions } = endpoint;
  // A condition that is not set counts as good. Source: discovery/v1, EndpointConditions.
  const isReady = conditions?.ready ?? true;
  const isEnding = conditions?.terminating === true;
  return {
    ...place,
    ...{ node: nodeName, zone, isReady, isEnding },
    isServingLast: isEnding && (conditions.serving ?? isReady),
    forZones: listNames(hints?.forZones),
    forNodes: listNames(hints?.forNodes),
  };
}

function listNames(hints: readonly { readonly name: string }[] | null | undefined): string[] {
  return (hints ?? []).map(({ name }) => name);
}

/**
 * Two slices may have an address, or two pods: who is ready counts, then who serves, then who ends (kube-proxy prefers the same, endpointslicecache.go).
 * Among equals any fixed order will do: slices have none.
 */
function mergeBackends(before: Backend | undefined, backend: Backend): Backend {
  const describe = (one: Backend) => JSON.stringify([!one.isReady, !one.isServingLast, !one.isEnding, one]);
  return before === undefined || describe(backend) < describe(before) ? backend : before;
}

/**
 * Early EndpointSlices: endpoints that balancers are to know before Kubernetes' own slices call them ready. The controller writes
 * them, of pods that wait for their gate or have a weight. `ready` means that nothing but a gate of vipnat is missing.
 */

const reference = z.object({
  kind: z.nullish(z.string()),
  name: z.nullish(z.string()),
  uid: z.nullish(z.string()),
});

const earlySlice = z.extend(slice, {
  metadata: z.extend(metadata, { namespace: name, ownerReferences: z.nullish(z.array(reference)) }),
  /** `targetRef` is the pod. */
  endpoints: z.nullish(z.array(z.extend(endpoint, { targetRef: z.nullish(reference) }))),
});

/** An EndpointSlice that the controller wrote. Its annotation `vipnat.io/weights` is read by `readWeights`. */
export type EarlySlice = z.output<typeof earlySlice>;

const toSelector = (service: string) =>
  `labelSelector=${encodeURIComponent(`${managedByLabel}=${apiGroup},${service}`)}`;

/** All of them. */
export const earlySlices: Resource<EarlySlice> = {
  ...{ kind: endpointSlices.kind, path: endpointSlices.path, limits: endpointSlices.limits },
  schema: earlySlice,
  selector: toSelector(earlyServiceLabel),
};

/** Those of the Service of a name. */
export function selectEarlySlicesOf({ namespace, name: own }: NamespacedName): Resource<EarlySlice> {
  return narrow(earlySlices, namespace, toSelector(`${earlyServiceLabel}=${own}`));
}

/** The key of its Service, `NAMESPACE/NAME`. */
export function nameEarlyOwner({ metadata: { namespace, labels } }: Pick<EarlySlice, 'metadata'>): string {
  return `${namespace}/${labels?.[earlyServiceLabel] ?? ''}`;
}

/** The highest weight. */
export const maxWeight = 256;

/** What an endpoint has where nobody says. */
export const usualWeight = 1;

type Annotations = Readonly<Record<string, string | null | undefined>> | null | undefined;

/** What a pod's annotation asks for: 0 to 256. Null where it has none; the usual weight where it is not such a number. */
export function readPodWeight(annotations: Annotations): number | null {
  const text = annotations?.[podAnnotations.weight] ?? null;
  if (text === null) return null;
  return /^\d{1,3}$/.test(text.trim()) && Number(text) <= maxWeight ? Number(text) : usualWeight;
}

const weights = z.record(z.string(), z.number().check(z.int(), z.gte(0), z.lte(maxWeight)));

/** Addresses of endpoints to their weights, as an EndpointSlice says; those that are not there have the usual weight. None where it cannot be read. */
export function readWeights(annotations: Annotations): ReadonlyMap<string, number> {
  const parsed = weights.safeParse(readJson(annotations?.[weightsAnnotation] ?? '{}'));
  return new Map(Object.entries(parsed.data ?? {}));
}

/** The annotation that says it; null where all have the usual weight. */
export function formatWeights(addressToWeight: ReadonlyMap<string, number>): string | null {
  const unusual = [...addressToWeight].filter(([, weight]) => weight !== usualWeight);
  const sorted = unusual.sort(([one], [other]) => (one < other ? -1 : 1));
  return sorted.length === 0 ? null : JSON.stringify(Object.fromEntries(sorted));
}

type GateTypes = ReadonlySet<string>;

/** Whether nothing but gates of vipnat keeps a pod from being ready: its containers are, and foreign gates are open. */
export function isReadyButForUs(pod: Pod, types: GateTypes): boolean {
  const others = (pod.spec.readinessGates ?? []).filter(({ conditionType }) => !types.has(conditionType));
  return ['ContainersReady', ...others.map(({ conditionType }) => conditionType)].every(
    (type) => findCondition(pod, type)?.status === 'True',
  );
}

/** The kubelet's reason for a pod that is not Ready for its gates alone. Source: kubelet, pkg/kubelet/status, generate.go. */
const gatesReason = 'ReadinessGatesNotReady';

/**
 * Whether a pod is to get connections: by its `Ready`. Kubernetes takes that condition alone back when a node dies. While gates keep the kubelet from
 * it, also one that is open and that the kubelet has not seen yet, by what the kubelet says besides, and by its node's `Ready`.
 */
export function isServing(pod: Pod, types: GateTypes, nodes: ReadonlyMap<string, Node>): boolean {
  const ready = findCondition(pod, 'Ready');
  const isHeld = ready === null || ready.reason === gatesReason || listClosedGates(pod, types).length > 0;
  if (ready?.status === 'True') return true;
  return isHeld && isReadyButForUs(pod, types) && isNodeReady(nodes.get(pod.spec.nodeName ?? ''));
}

/** The gates of vipnat that are not open. */
export function listClosedGates(pod: Pod, types: GateTypes): string[] {
  return listGates(pod, types).filter((type) => findCondition(pod, type)?.status !== 'True');
}

/** Since when a pod waits for its gates alone, by its kubelet's date, as milliseconds since 1970: the last condition that was met. */
export function readWaitingSince({ metadata, spec, status }: Pod, types: GateTypes): number {
  const gates = (spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const awaited = new Set(['ContainersReady', ...gates.filter((type) => !types.has(type))]);
  const met = (status?.conditions ?? []).filter(({ type }) => awaited.has(type));
  const moments = [metadata.creationTimestamp, ...met.map(({ lastTransitionTime }) => lastTransitionTime)];
  return Math.max(...moments.map((text) => readDate(text) ?? 0));
}

/** Since when all gates of vipnat are open, by the controller's own date; null for a pod that has none, or a closed one. */
export function readOpenSince(pod: Pod, types: GateTypes): number | null {
  const gates = listGates(pod, types);
  if (gates.length === 0 || listClosedGates(pod, types).length > 0) return null;
  return Math.max(...gates.map((type) => readDate(findCondition(pod, type)?.lastTransitionTime) ?? 0));
}

function findCondition({ status }: Pod, wanted: string): Condition | null {
  return status?.conditions?.find(({ type }) => type === wanted) ?? null;
}

/** A date of the API as milliseconds since 1970; null for one that is missing or none. */
export function readDate(text: string | null | undefined): number | null {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? null : ms;
}

const container = z.object({
  /** Of an init container: `Always` for one that runs next to the others. */
  restartPolicy: z.nullish(z.string()),
  ports: z.nullish(
    z.array(
      z.object({ name: z.nullish(z.string()), containerPort: z.number(), protocol: z.nullish(z.string()) }),
    ),
  ),
});

const pod = z.object({
  metadata: z.extend(z.omit(metadata, { generation: true, finalizers: true }), {
    namespace: name,
    /** Of all annotations this one: others may be long. */
    annotations: z.nullish(z.object({ [podAnnotations.weight]: z.nullish(z.string()) })),
  }),
  spec: z.object({
    nodeName: z.nullish(z.string()),
    readinessGates: z.nullish(z.array(z.object({ conditionType: z.string() }))),
    containers: z._default(z.array(container), []),
    initContainers: z.nullish(z.array(container)),
  }),
  status: z.nullish(
    z.object({
      podIP: z.nullish(z.string()),
      podIPs: z.nullish(z.array(z.object({ ip: z.nullish(z.string()) }))),
      conditions: z.nullish(z.array(condition)),
    }),
  ),
});

/** A Pod of v1. */
export type Pod = z.output<typeof pod>;

/**
 * The pods of all namespaces that have a readiness gate of one of these types, or a weight, or are about to be evicted; no other one is
 * kept. Pods that have ended are not asked for: other pods get their addresses soon.
 */
export function toPodResource(gateTypes: ReadonlySet<string>): Resource<Pod> {
  return {
    kind: 'Pod',
    path: '/api/v1/pods',
    selector: `fieldSelector=${encodeURIComponent('status.phase!=Succeeded,status.phase!=Failed')}`,
    schema: pod,
    limits: { objects: 200_000, characters: 64_000_000, page: 500 },
    isKept: (one) => listGates(one, gateTypes).length > 0 || hasWeight(one) || findDisruption(one) !== null,
  };
}

/** The readiness gates of a pod that are of some types. */
export function listGates({ spec }: Pod, gateTypes: ReadonlySet<string>): string[] {
  const types = (spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  return [...new Set(types)].filter((type) => gateTypes.has(type));
}

/**
 * What says that a pod is about to be ended by an eviction, a preemption or a taint; null for none. Source: core/v1, DisruptionTarget. The
 * kubelet's own reason (TerminationByKubelet) comes when the containers have ended.
 */
export function findDisruption({ status }: Pod): Condition | null {
  const isSo = ({ type, status: is }: Condition) => type === 'DisruptionTarget' && is === 'True';
  return status?.conditions?.find(isSo) ?? null;
}

function hasWeight({ metadata: { annotations } }: Pod): boolean {
  return typeof annotations?.[podAnnotations.weight] === 'string';
}

/** A name with a prefix: those without one are Kubernetes' own, such as Ready. Source: apimachinery, IsQualifiedName. */
export function isGateType(text: string): boolean {
  const [prefix = '', name = '', ...more] = text.split('/');
  const label = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?';
  const isDomain = prefix.length <= 253 && new RegExp(`^${label}(?:\\.${label})*$`).test(prefix);
  return more.length === 0 && isDomain && /^[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/.test(name);
}

/** The usual type, and others that were asked for. */
export function toGateTypes(others: readonly string[]): ReadonlySet<string> {
  return new Set([gateType, ...others]);
}

/** So many are read: a pod seldom has more gates than one. */
const maxTypes = 100;

/** What the controller notes on its Lease, so that its types are known while none leads. */
export function toGateTypesNote(types: ReadonlySet<string>): Record<string, string> {
  return { [gateTypesAnnotation]: JSON.stringify([...types].sort()) };
}

/** The types that the controller opens, or the last one did: the usual one, and those that it noted. What is none says nothing. Pure. */
export function readGateTypes(leases: readonly Lease[]): ReadonlySet<string> {
  const election = leases.find(({ metadata }) => metadata.name === electionLease);
  const noted = readJson(election?.metadata.annotations?.[gateTypesAnnotation] ?? '');
  const types = Array.isArray(noted) ? noted.filter((one): one is string => typeof one === 'string') : [];
  return toGateTypes(types.filter(isGateType).slice(0, maxTypes));
}

/** For how long a pod that ends serves on, unless it says so itself: until all nodes have learned of it. */
export const pauseSeconds = 2;

/** On pods of a node's own files: the API has no word in these. Source: core/v1, MirrorPodAnnotationKey. */
export const mirrorAnnotation = 'kubernetes.io/config.mirror';

/** What a pod has to end where it does not say so. Source: core/v1, DefaultTerminationGracePeriodSeconds. */
export const defaultGraceSeconds = 30;

/** The one entry of that configuration. */
export const webhookEntry = 'gates.vipnat.io';

/** Where the API server asks. */
export const webhookPath = '/gates';

/** Where controllers in pods listen, besides their other port. */
export const webhookPort = 10_270;

/** The name that the API server expects in the certificate. Source: apiextensions/webhook, the host of a Service. */
export function toServerName(namespace: string): string {
  return `${webhookName}.${namespace}.svc`;
}

/** What gives new pods of Services their gate: both say the same. */
export const injectionMethods = ['policy', 'webhook'] as const;

/** Labels of an object; null and undefined for none. */
type Labels = Readonly<Record<string, string>> | null | undefined;

type Requirement = NonNullable<LabelSelector['matchExpressions']>[number];

const operatorToTest: Readonly<Record<string, (value: string | undefined, values: string[]) => boolean>> = {
  In: (value, values) => value !== undefined && values.includes(value),
  // As in Kubernetes: an object without the label is not in any set.
  NotIn: (value, values) => value === undefined || !values.includes(value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
};

/** Whether labels are what a selector asks for. No selector, and an empty one, have all. An operator that nobody knows has none. */
export function isSelected(selector: LabelSelector | null | undefined, labels: Labels): boolean {
  const getLabel = (key: string) => (Object.hasOwn(labels ?? {}, key) ? labels?.[key] : undefined);
  return (
    Object.entries(selector?.matchLabels ?? {}).every(([key, value]) => getLabel(key) === value) &&
    (selector?.matchExpressions ?? []).every(
      ({ key, operator, values }) => operatorToTest[operator]?.(getLabel(key), values ?? []) ?? false,
    )
  );
}

/**
 * Whether a pool or a device is for a Service with these labels in this namespace. Of a namespace that is not known yet nobody knows the
 * labels: a selector selects it once they are.
 */
export function isForService(
  spec: { readonly [S in 'serviceSelector' | 'namespaceSelector']?: LabelSelector | null | undefined },
  labels: Labels,
  namespace: { readonly labels?: Labels } | undefined,
): boolean {
  const { matchLabels, matchExpressions } = spec.namespaceSelector ?? {};
  const isForAll = Object.keys(matchLabels ?? {}).length + (matchExpressions ?? []).length === 0;
  const isOfNamespace =
    isForAll || (namespace !== undefined && isSelected(spec.namespaceSelector, namespace.labels));
  return isOfNamespace && isSelected(spec.serviceSelector, labels);
}

/** What is wrong with a selector, for people; null for nothing. */
export function findSelectorProblem(selector: LabelSelector | null | undefined): string | null {
  return (selector?.matchExpressions ?? []).map(findRequirementProblem).find((one) => one !== null) ?? null;
}

/** Whether a selector says something of a label. */
export function mentions(selector: LabelSelector | null | undefined, label: string): boolean {
  return (
    Object.hasOwn(selector?.matchLabels ?? {}, label) ||
    (selector?.matchExpressions ?? []).some(({ key }) => key === label)
  );
}

function findRequirementProblem({ key, operator, values }: Requirement): string | null {
  if (!Object.hasOwn(operatorToTest, operator))
    return `the operator ${operator} of ${key} is none of ${Object.keys(operatorToTest).join(', ')}`;
  const count = values?.length ?? 0;
  const needsValues = operator === 'In' || operator === 'NotIn';
  if (needsValues && count === 0) return `${operator} of ${key} has no values`;
  return !needsValues && count > 0 ? `${operator} of ${key} takes no values` : null;
}

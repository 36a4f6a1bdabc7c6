import type { Config } from '../../config/options.ts';
import { ApiRoute, findPersonalAccess } from '../../lib/kubernetes/route.ts';
import { VipnatError, findErrorCode } from '../../lib/errors.ts';
import { suggest } from '../../lib/text.ts';
import type { ServiceObjects, ServicesView, ServiceView } from './view.ts';
import { type NamespacedName, name, objectVersion, type Resource } from '../../lib/kubernetes/client.ts';
import { createLister, type ListAll } from '../../lib/kubernetes/list-watch.ts';
import {
  loadBalancerServices,
  selectService,
  endpointSlices,
  selectSlicesOf,
  type Service,
} from '../../lib/api/service.ts';
import { earlySlices, selectEarlySlicesOf, type Pod } from '../../lib/api/endpoints.ts';
import { virtualIps, addressPools, electionLease } from '../../lib/api/vipnat.ts';
import { devices } from '../../lib/api/device.ts';
import { toLeaseResource } from '../../lib/api/node.ts';
import { viewServices, selectPodsOf } from './read-view.ts';
import * as z from 'zod/mini';

/**
 * How a command that a person runs anywhere gets at the Kubernetes API: with the credentials that kubectl would take. It asks
 * only the server of the kubeconfig, which may be a virtual IP.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, naming all places
 */
export function findClusterRoute(
  { kubeconfig }: Pick<Config, 'kubeconfig'>,
  context: string | null,
  clock: Parameters<typeof createLister>[1],
): ApiRoute {
  const sources = { kubeconfig, context, environment: process.env, now: clock.date.bind(clock) };
  return new ApiRoute(findPersonalAccess(sources), [], null);
}

/** One Service, with what was said of it. */
export interface ServiceDetails {
  readonly view: ServicesView;
  readonly service: ServiceView;
  /** The youngest last; null where the credentials do not allow to read events. */
  readonly events: readonly ServiceEvent[] | null;
}

const controllerLease = z.object({
  metadata: z.object({ name, namespace: name, resourceVersion: objectVersion }),
});

/**
 * The namespace of vipnat's own objects: the given one, else that of the only Lease of a controller in the cluster. Null where
 * there is none, there are several, or Leases of all namespaces may not be listed.
 */
export async function findSystemNamespace(
  route: ApiRoute,
  clock: Parameters<typeof createLister>[1],
  given: string | null,
): Promise<string | null> {
  if (given !== null) return given;
  const list = createLister(route, clock, new AbortController().signal);
  const leases = await list({
    kind: 'Lease',
    path: '/apis/coordination.k8s.io/v1/leases',
    selector: `fieldSelector=${encodeURIComponent(`metadata.name=${electionLease}`)}`,
    schema: controllerLease,
    limits: { objects: 1000, characters: 4_000_000, page: 500 },
  }).catch((error: unknown) => {
    if (findErrorCode(error) === 'API_FORBIDDEN') return [];
    throw error;
  });
  const [only, ...others] = leases;
  return only === undefined || others.length > 0 ? null : only.metadata.namespace;
}

/** The Services in the API. Each call reads all again, and rejects as listObjects does. */
export interface ServicesApi {
  listAll(): Promise<ServicesView>;
  /** Rejects with SERVICE_NOT_FOUND where there is none, or where another load balancer serves it. */
  find(name: NamespacedName): Promise<ServiceDetails>;
}

/** Of how many Services the pods are read: each is a question to the API. */
const maxUnready = 20;

/** Of events about one Service and its addresses. */
const maxEvents = 10;

/** Reads Services by a route. In the namespace are the Leases of balancers and controllers. */
export function createServicesApi(
  route: ApiRoute,
  clock: Parameters<typeof createLister>[1],
  namespace: string,
): ServicesApi {
  const list = createLister(route, clock, new AbortController().signal);
  const read = async (one: NamespacedName | null) => {
    const objects = await readServiceObjects(list, namespace, one);
    const view = (pods: readonly Pod[]) => viewServices({ ...objects, pods }, clock.date().getTime());
    const first = view([]);
    const pods = await listUnready(list, first.services);
    return { services: objects.services, view: pods.length === 0 ? first : view(pods) };
  };
  const listEvents = async ({ service, addresses }: ServiceView) => {
    const { uid, namespace: where } = service.metadata;
    const about = [
      toEventResource(where, uid),
      // Events about what has no namespace are in this one.
      ...addresses.flatMap(({ virtualIp }) =>
        virtualIp === null ? [] : [toEventResource('default', virtualIp.metadata.uid)],
      ),
    ];
    try {
      const events = await Promise.all(about.map((resource) => list(resource)));
      return readEvents(events.flat()).slice(-maxEvents);
    } catch (error) {
      if (findErrorCode(error) === 'API_FORBIDDEN') return null;
      throw error;
    }
  };
  return {
    listAll: async () => (await read(null)).view,
    find: async (name) => {
      const { services, view } = await read(name);
      const [service] = view.services;
      if (service === undefined) {
        const known = services.length > 0 ? [] : await list(loadBalancerServices);
        throw refuse(name, services[0]?.spec, known.map(formatName));
      }
      return { view, service, events: await listEvents(service) };
    },
  };
}

/** What all Services depend on, or one of them, but for pods. In the namespace are the Leases. Rejects as listObjects does. */
export async function readServiceObjects(
  list: ListAll,
  namespace: string,
  one: NamespacedName | null = null,
): Promise<ServiceObjects> {
  return {
    services: await list(one === null ? loadBalancerServices : selectService(one)),
    slices: await list(one === null ? endpointSlices : selectSlicesOf(one)),
    earlySlices: await list(one === null ? earlySlices : selectEarlySlicesOf(one)),
    pods: [],
    virtualIps: await list(virtualIps),
    pools: await list(addressPools),
    devices: await list(devices),
    leases: await list(toLeaseResource(namespace)),
  };
}

/** The pods of Services of which some are not ready: these may wait for a gate. None where the credentials do not allow to read pods. */
async function listUnready(list: ListAll, views: readonly ServiceView[]): Promise<readonly Pod[]> {
  const unready = views.filter(({ pods }) => pods.some(({ state }) => state === 'not ready'));
  const selecting = unready.filter(({ service }) => Object.keys(service.spec.selector ?? {}).length > 0);
  const uidToPod = new Map<string, Pod>();
  try {
    for (const { service } of selecting.slice(0, maxUnready))
      for (const pod of await list(selectPodsOf(service))) uidToPod.set(pod.metadata.uid, pod);
  } catch (error) {
    if (findErrorCode(error) !== 'API_FORBIDDEN') throw error;
  }
  return [...uidToPod.values()];
}

const formatName = ({ metadata: { namespace, name } }: Service) => `${namespace}/${name}`;

function refuse(
  { namespace, name }: NamespacedName,
  spec: Service['spec'] | undefined,
  known: readonly string[],
): VipnatError {
  const key = `${namespace}/${name}`;
  const ownClass = spec?.loadBalancerClass ?? '';
  const why =
    spec === undefined
      ? `there is no Service ${key}`
      : spec.type !== 'LoadBalancer'
        ? `the Service ${key} is of type ${spec.type}, and vipnat serves type LoadBalancer`
        : `another load balancer serves the Service ${key}${ownClass === '' ? '' : ` (loadBalancerClass ${ownClass})`}`;
  const hint = suggest(key, known, 'To list the Services of vipnat: vipnat services');
  return new VipnatError('SERVICE_NOT_FOUND', `${why}. ${hint}`);
}

const time = z.nullish(z.string());

const event = z.object({
  metadata: z.object({ name, namespace: name, resourceVersion: objectVersion, creationTimestamp: time }),
  type: z._default(z.string(), 'Normal'),
  reason: z._default(z.string(), ''),
  message: z._default(z.string(), ''),
  eventTime: time,
  lastTimestamp: time,
  count: z.nullish(z.number()),
  series: z.nullish(z.object({ count: z.nullish(z.number()), lastObservedTime: time })),
});

/** An Event of v1: those that were written by events.k8s.io are there, too. */
type Event = z.output<typeof event>;

interface ServiceEvent extends Pick<Event, 'type' | 'reason' | 'message'> {
  /** When it was so last, as the API writes dates. */
  readonly at: string;
  /** How often. */
  readonly count: number;
}

/** The events about the object of a uid. An apiserver forgets events after an hour. */
function toEventResource(namespace: string, uid: string): Resource<Event> {
  return {
    kind: 'Event',
    path: `/api/v1/namespaces/${namespace}/events`,
    selector: `fieldSelector=${encodeURIComponent(`involvedObject.uid=${uid}`)}`,
    schema: event,
    limits: { objects: 10_000, characters: 8_000_000, page: 500 },
  };
}

/** Events as people read them, the youngest last. Pure. */
function readEvents(events: readonly Event[]): ServiceEvent[] {
  return events
    .map(({ metadata, type, reason, message, eventTime, lastTimestamp, count, series }) => ({
      at: series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? '',
      count: series?.count ?? count ?? 1,
      ...{ type, reason, message },
    }))
    .sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

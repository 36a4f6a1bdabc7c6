import { type Clock } from '../../lib/control/clock.ts';
import { type NamespacedName } from '../../lib/kubernetes/api-object.ts';
import { createLister, type ListAll } from '../../lib/kubernetes/object-lister.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { earlySlices, selectEarlySlicesOf } from '../../lib/services/early-slices.ts';
import { devices } from '../../lib/services/devices.ts';
import { toLeaseResource } from '../../lib/services/node-report.ts';
import { addressPools, virtualIps } from '../../lib/services/objects.ts';
import { type Pod } from '../../lib/services/pods.ts';
import {
  endpointSlices,
  loadBalancerServices,
  selectService,
  selectSlicesOf,
} from '../../lib/services/services.ts';
import { findErrorCode, VipnatError } from '../../lib/text/errors.ts';
import { readEvents, type ServiceEvent, toEventResource } from './read-events.ts';
import { type ServicesView, type ServiceView } from './services-view.ts';
import { viewServices } from './view-services.ts';
import { selectPodsOf } from './waiting-pods.ts';

/** What is needed of the API. */
export interface ApiServicesOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  /** Where the Leases of balancers and controllers are. */
  readonly namespace: string;
}

/** One Service, with what was said of it. */
export interface ServiceDetails {
  readonly view: ServicesView;
  readonly service: ServiceView;
  /** The youngest last; null where the credentials do not allow to read events. */
  readonly events: readonly ServiceEvent[] | null;
}

/** The Services in the API. Each call reads all anew, and rejects as listObjects does. */
export interface ServicesApi {
  listAll(): Promise<ServicesView>;
  /** Rejects with SERVICE_NOT_FOUND where there is none, or where another load balancer serves it. */
  find(name: NamespacedName): Promise<ServiceDetails>;
}

/** Of how many Services the pods are read: each is a question to the API. */
const maxUnready = 20;

/** Of events about one Service and its addresses. */
const maxEvents = 10;

/** Reads Services by a route. */
export function createServicesApi({ route, clock, namespace }: ApiServicesOptions): ServicesApi {
  const list = createLister(route, clock, new AbortController().signal);
  const read = async (one: NamespacedName | null) => {
    const services = await list(one === null ? loadBalancerServices : selectService(one));
    const known = {
      services,
      slices: await list(one === null ? endpointSlices : selectSlicesOf(one)),
      earlySlices: await list(one === null ? earlySlices : selectEarlySlicesOf(one)),
      virtualIps: await list(virtualIps),
      pools: await list(addressPools),
      devices: await list(devices),
      leases: await list(toLeaseResource(namespace)),
    };
    const view = (pods: readonly Pod[]) => viewServices({ ...known, pods }, clock.date().getTime());
    const first = view([]);
    const pods = await listUnready(list, first.services);
    return { services, view: pods.length === 0 ? first : view(pods) };
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
      if (service === undefined) throw refuse(name, services[0]?.spec);
      return { view, service, events: await listEvents(service) };
    },
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

interface Spec {
  readonly type: string;
  readonly loadBalancerClass?: string | null | undefined;
}

function refuse({ namespace, name }: NamespacedName, spec: Spec | undefined): VipnatError {
  const key = `${namespace}/${name}`;
  const ownClass = spec?.loadBalancerClass ?? '';
  const why =
    spec === undefined
      ? `there is no Service ${key}`
      : spec.type !== 'LoadBalancer'
        ? `the Service ${key} is of type ${spec.type}, and vipnat serves type LoadBalancer`
        : `another load balancer serves the Service ${key}${ownClass === '' ? '' : ` (loadBalancerClass ${ownClass})`}`;
  return new VipnatError('SERVICE_NOT_FOUND', `${why}. To list the Services of vipnat: vipnat services`);
}

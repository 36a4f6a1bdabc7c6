/** Load balancers outside of the cluster, as their objects in the API say. */
import { parseAddress } from '../../lib/address/address.ts';
import {
  chooseDevice,
  type DeviceUnit,
  listHolders,
  type LoadBalancerDevice,
} from '../../lib/services/devices.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { contains, parseRange } from '../../lib/services/ranges.ts';
import { type Service } from '../../lib/services/services.ts';

/** A device. */
export interface DeviceView {
  readonly name: string;
  readonly driver: string;
  /** As they were seen last; empty before that. */
  readonly units: readonly DeviceUnit[];
  /** Of how many Services it has something; null where nobody has read that. */
  readonly balancers: number | null;
  /** What other users have changed there and not applied. */
  readonly foreignChanges: readonly string[];
  /** How many members drain there: 100 at most are counted. */
  readonly draining: number;
  /** Whether its condition `Ready` is true; null where no controller has said anything yet. */
  readonly isReady: boolean | null;
  /** Of that condition, as `why` and `since` are: a sentence without its full stop, and a date of the API. */
  readonly reason: string;
  readonly why: string;
  readonly since: string | null;
}

/** A device of a Service, with what drains there. */
export interface DeviceOfService {
  readonly name: string;
  /** Null where the API has none of that name. */
  readonly view: DeviceView | null;
  readonly draining: readonly MemberDrain[];
}

/** A member that gets no new connections. */
export interface MemberDrain {
  readonly device: string;
  /** `10.1.2.3:8080`: a pod's, or a node's port. */
  readonly member: string;
  readonly since: string;
  /** Open connections; null where the device does not count them, or has not yet. */
  readonly sessions: number | null;
}

/** How a device does. Pure. */
export function viewDevice({ metadata: { name }, spec, status }: LoadBalancerDevice): DeviceView {
  const { units, balancers, foreignChanges, draining, conditions } = status ?? {};
  return {
    ...{ name, driver: spec.driver, units: units ?? [], balancers: balancers ?? null },
    ...{ foreignChanges: foreignChanges ?? [], draining: draining?.length ?? 0 },
    ...judge(conditions?.find(({ type }) => type === 'Ready')),
  };
}

function judge(condition: Condition | undefined): Pick<DeviceView, 'isReady' | 'reason' | 'why' | 'since'> {
  if (condition === undefined)
    return { isReady: null, reason: 'NotSeen', why: 'no controller has looked at it yet', since: null };
  const { status, reason, message, lastTransitionTime } = condition;
  const since = lastTransitionTime ?? null;
  return { isReady: status === 'True', reason, why: message.replace(/\.$/, ''), since };
}

/** The devices that are to have a Service, or have something of it: the one that it chooses first. None for one that nodes serve. Pure. */
export function listDevicesOf(service: Service, devices: readonly LoadBalancerDevice[]): DeviceOfService[] {
  const holders = listHolders(service);
  const chosen = chooseDevice(service, undefined);
  const names = [...(chosen === null ? [] : [chosen]), ...holders];
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  return [...new Set(names)].map((name) => {
    const device = devices.find(({ metadata }) => metadata.name === name);
    const own = (device?.status?.draining ?? []).filter((drain) => drain.service === key);
    return {
      name,
      view: device === undefined ? null : viewDevice(device),
      draining: own.map(({ member, since, sessions }) => ({
        device: name,
        member,
        since,
        sessions: sessions ?? null,
      })),
    };
  });
}

/** Which of a Service's devices has an address of its status; null for a node. Pure. */
export function findDeviceOf(
  address: string,
  { service, devices }: { readonly service: Service; readonly devices: readonly LoadBalancerDevice[] },
): string | null {
  const isOfDevice = (service.status?.loadBalancer?.ingress ?? []).some(
    ({ ip, ipMode }) => ipMode === 'Proxy' && parseAddress(ip ?? '')?.text === address,
  );
  if (!isOfDevice) return null;
  const names = listDevicesOf(service, devices).map(({ name }) => name);
  const parsed = parseAddress(address);
  const own = devices.filter(({ metadata }) => names.includes(metadata.name));
  const found = own.find(({ spec }) =>
    spec.addresses.some((text) => {
      const range = parseRange(text);
      return range !== null && parsed !== null && contains(range, parsed);
    }),
  );
  return found?.metadata.name ?? names[0] ?? null;
}

/**
 * What a Service asks for of its ports, and does not get: in `status.loadBalancer.ingress[].ports`, as the Kubernetes API defines it. With
 * an error of one port, all ports of the Service are listed. Without any, none is.
 */
import { findUnknownMethod } from '../../lib/services/methods.ts';
import { type Ingress, type Service, type ServicePort } from '../../lib/services/services.ts';
import { quoteTenant } from '../../lib/text/printable.ts';
import { getIngress } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { type Claim } from './claims.ts';
import { type Step, type StepEvent, toJson, toStep } from '../engine/step.ts';
import { patchServiceStatus } from './writes.ts';

/** The names of errors. Published: none changes its meaning. */
export const portErrors = {
  /** The kernel of a node that may hold the address cannot translate the protocol. */
  protocol: 'vipnat.io/ProtocolNotSupported',
  /** The port is served, and its pods are chosen by the default method. */
  method: 'vipnat.io/MethodNotSupported',
} as const;

/** Writes them beside the addresses that the status has; null where it says just that. What comes new is an event. */
export function writePortErrors(service: Service, held: readonly Claim[], world: World): Step | null {
  const before = getIngress(service);
  const unsupported = listUnsupported(held, world);
  const ports = listPorts(service, new Set(unsupported.map(({ protocol }) => protocol)));
  if (before.every((one) => toText(one.ports) === toText(ports))) return null;
  const ingress = before.map(({ ip, hostname, ipMode }) => ({ ip, hostname, ipMode, ports }));
  const write = patchServiceStatus(service, { loadBalancer: { ingress: toJson(ingress) } });
  const known = new Set(before.flatMap((one) => (one.ports ?? []).map(({ error }) => error ?? '')));
  const isNew = (ports ?? []).some(({ error }) => typeof error === 'string' && !known.has(error));
  return toStep(write, isNew ? toEvent(service, unsupported) : null);
}

type PortStatus = NonNullable<Ingress['ports']>[number];

interface Unsupported {
  readonly protocol: string;
  readonly node: string;
}

/** By what living nodes report that may hold the addresses. */
function listUnsupported(held: readonly Claim[], { pools, livingReports }: World): Unsupported[] {
  const nodes = held.flatMap(({ virtualIp: { spec } }) =>
    (pools.get(spec.pool)?.status?.seats ?? []).flatMap((seat) => seat.nodes),
  );
  return [...new Set(nodes)].sort().flatMap((node) => {
    const { unsupported = [] } = livingReports.get(node) ?? {};
    return unsupported.map((protocol) => ({ protocol, node }));
  });
}

/** Undefined where there is no error: JSON leaves it out. */
function listPorts(service: Service, unsupported: ReadonlySet<string>): PortStatus[] | undefined {
  const isUnknown = findUnknownMethod(service) !== null;
  const all = (service.spec.ports ?? []).map(({ port, protocol }: ServicePort): PortStatus => {
    if (unsupported.has(protocol)) return { port, protocol, error: portErrors.protocol };
    return isUnknown ? { port, protocol, error: portErrors.method } : { port, protocol };
  });
  return all.some(({ error }) => typeof error === 'string') ? all : undefined;
}

function toText(ports: Ingress['ports']): string {
  return JSON.stringify((ports ?? []).map(({ port, protocol, error }) => [port, protocol, error ?? '']));
}

function toEvent(service: Service, unsupported: readonly Unsupported[]): StepEvent {
  const used = new Set((service.spec.ports ?? []).map(({ protocol }) => protocol));
  const method = findUnknownMethod(service);
  const sentences = [
    ...unsupported
      .filter(({ protocol }) => used.has(protocol))
      .map(({ protocol, node }) => `The kernel of ${node} cannot translate ${protocol}.`),
    ...(method === null
      ? []
      : [`vipnat does not have the method ${quoteTenant(method)}: pods are chosen at random.`]),
  ];
  return { type: 'Warning', reason: 'PortNotSupported', message: sentences.join(' ') };
}

/** Endpoints as the fields of an EndpointSlice. */
import { type Family } from '../../lib/address/address.ts';
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { weightsAnnotation } from '../../lib/services/names.ts';
import { formatWeights } from '../../lib/services/weights.ts';
import { type Json } from '../engine/step.ts';
import { type WantedEndpoint } from './wanted-endpoints.ts';

/** What endpoints have in common that are in one slice. */
export type Group = Pick<WantedEndpoint, 'family' | 'ports'>;

const familyToType: Readonly<Record<Family, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' };

/** Another text for each group. */
export function toGroupText({ family, ports }: Group): string {
  return JSON.stringify([
    familyToType[family],
    ports.map(({ name, protocol, port }) => [name, protocol, port]),
  ]);
}

/** That of a slice that is there. */
export function readGroupText({ addressType, ports }: EarlySlice): string {
  const known = (ports ?? []).map(({ name, protocol, port }) => [name ?? '', protocol ?? 'TCP', port]);
  return JSON.stringify([addressType, known]);
}

/** The fields that do not change. */
export function toGroupFields({ family, ports }: Group): { readonly [field: string]: Json } {
  return {
    addressType: familyToType[family],
    ports: ports.map(({ name, protocol, port }) => ({ name, protocol, port })),
  };
}

/** The field `endpoints`. */
export function toEndpointFields(endpoints: readonly WantedEndpoint[], namespace: string): Json {
  return endpoints.map(({ address, ready, serving, terminating, node, zone, pod }) => ({
    addresses: [address],
    conditions: { ready, serving, terminating },
    ...(node === null ? {} : { nodeName: node }),
    ...(zone === null ? {} : { zone }),
    targetRef: { kind: 'Pod', namespace, name: pod.name, uid: pod.uid },
  }));
}

/** The annotation of the weights; null where all are usual. */
export function toWeights(endpoints: readonly WantedEndpoint[]): string | null {
  return formatWeights(new Map(endpoints.map(({ address, weight }) => [address, weight])));
}

/** Whether a slice has these endpoints, in this order, and their weights. */
export function hasEndpoints(slice: EarlySlice, endpoints: readonly WantedEndpoint[]): boolean {
  const known = (slice.endpoints ?? []).map(({ addresses, conditions, nodeName, zone, targetRef }) => {
    const { ready, serving, terminating } = conditions ?? {};
    return [addresses, ready, serving, terminating, nodeName ?? null, zone ?? null, targetRef?.uid];
  });
  const wanted = endpoints.map(({ address, ready, serving, terminating, node, zone, pod }) => {
    return [[address], ready, serving, terminating, node, zone, pod.uid];
  });
  const weights = slice.metadata.annotations?.[weightsAnnotation] ?? null;
  return JSON.stringify(known) === JSON.stringify(wanted) && weights === toWeights(endpoints);
}

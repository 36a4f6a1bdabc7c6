import { type Address, parseAddress } from '../../lib/address/address.ts';
import { type Ingress, type Service } from '../../lib/services/services.ts';

/** What a Service's status says of load balancers. */
export function getIngress({ status }: Service): readonly Ingress[] {
  return status?.loadBalancer?.ingress ?? [];
}

/** The addresses that a Service's status has. */
export function listPublished(service: Service): Address[] {
  return getIngress(service)
    .map(({ ip }) => (typeof ip === 'string' ? parseAddress(ip) : null))
    .filter((address) => address !== null);
}

/** The same as canonical text; none of a Service that is not there. */
export function listPublishedTexts(service: Service | null): string[] {
  return service === null ? [] : listPublished(service).map(({ text }) => text);
}

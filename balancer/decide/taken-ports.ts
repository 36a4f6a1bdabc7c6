import { type Service } from '../../lib/services/services.ts';

/** A port of an address. */
export function nameTaken(
  address: string,
  { protocol, port }: { readonly protocol: string; readonly port: number },
): string {
  return `${address} ${protocol} ${port}`;
}

/** A sentence for each port that a Service does not get, because another one had it before. Pure. */
export function describeTaken({ metadata, spec }: Service, taken: ReadonlyMap<string, string>): string[] {
  return [...taken].flatMap(([place, owner]) => {
    const [address = ''] = place.split(' ');
    const ports = (spec.ports ?? []).filter((port) => nameTaken(address, port) === place);
    return ports.map(
      ({ protocol, port }) =>
        `${metadata.namespace}/${metadata.name} does not get ${protocol}/${port} of ${address}: ${owner} had it before`,
    );
  });
}

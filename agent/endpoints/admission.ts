import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint, isAtVip } from '../../lib/address/endpoint.ts';
import { classifyAddress, type Scope } from '../../lib/address/scope.ts';
import { type Sourced } from '../../lib/text/sourced.ts';

/** Twenty times the largest control plane anybody runs. */
export const maxEndpoints = 100;

/** Why what a source names is not used as an apiserver. */
export interface Refusal {
  /** `10.0.0.50:6443 is at a virtual IP` */
  readonly complaint: string;
  /** For people, with the source. */
  readonly sentence: string;
  readonly isAtVip: boolean;
}

/** Those of a source that can be apiservers, and why the others cannot. */
export interface Admission {
  readonly admitted: readonly Endpoint[];
  readonly refused: readonly Refusal[];
}

const complaints: Readonly<Record<Exclude<Scope, 'unicast'>, string>> = {
  unspecified: 'an unspecified address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local address',
  multicast: 'a multicast address',
  broadcast: 'a broadcast address',
  ipv4Mapped: 'an IPv4 address in IPv6 form',
};

/**
 * Which apiservers of a family a source may be believed: whatever is balanced over becomes a rule. One at a virtual IP
 * would be a loop, and a source with more than any control plane has is not one of apiservers. Pure.
 */
export function admit(
  { value, seenIn }: Sourced<readonly Endpoint[]>,
  family: Family,
  vips: readonly Endpoint[],
): Admission {
  const own = value.filter((endpoint) => endpoint.family === family);
  if (own.length > maxEndpoints) {
    const complaint = `the list names ${own.length} apiservers, more than a control plane has`;
    const sentence = `${complaint}. vipnat uses no apiserver of this list (${seenIn})`;
    return { admitted: [], refused: [{ complaint, sentence, isAtVip: false }] };
  }
  const judged = own.map((endpoint) => ({ endpoint, what: findComplaint(endpoint, vips) }));
  return {
    admitted: judged.filter(({ what }) => what === null).map(({ endpoint }) => endpoint),
    refused: judged.flatMap(({ endpoint, what }) => {
      if (what === null) return [];
      const complaint = `${formatEndpoint(endpoint)} is ${what}`;
      const sentence = `${complaint}, so vipnat does not use it as an apiserver (${seenIn})`;
      return [{ complaint, sentence, isAtVip: isAtVip(endpoint, vips) }];
    }),
  };
}

function findComplaint(endpoint: Endpoint, vips: readonly Endpoint[]): string | null {
  if (isAtVip(endpoint, vips)) return 'the address of a virtual IP';
  const { family, address } = endpoint;
  const scope = classifyAddress({ family, text: address });
  return scope === 'unicast' ? null : complaints[scope];
}

import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { classifyAddress, type Scope } from '../../lib/address/scope.ts';
import { type Finding } from '../../lib/finding.ts';

/** Twenty times the largest control plane anybody runs. */
export const maxEndpoints = 100;

/** Those of a source that can be apiservers, and why the others cannot: a sentence for each. */
export interface Admission {
  readonly admitted: readonly Endpoint[];
  readonly refused: readonly string[];
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
  { value, seenIn }: Finding<readonly Endpoint[]>,
  family: Family,
  vips: readonly Endpoint[],
): Admission {
  const own = value.filter((endpoint) => endpoint.family === family);
  if (own.length > maxEndpoints) {
    return {
      admitted: [],
      refused: [`${own.length} apiservers cannot be: none of them is used (${seenIn})`],
    };
  }
  const judged = own.map((endpoint) => ({ endpoint, complaint: findComplaint(endpoint, vips) }));
  return {
    admitted: judged.filter(({ complaint }) => complaint === null).map(({ endpoint }) => endpoint),
    refused: judged.flatMap(({ endpoint, complaint }) =>
      complaint === null
        ? []
        : [`${formatEndpoint(endpoint)} is ${complaint}, and not used as an apiserver (${seenIn})`],
    ),
  };
}

function findComplaint({ family, address }: Endpoint, vips: readonly Endpoint[]): string | null {
  if (vips.some((vip) => vip.address === address)) return 'at a virtual IP';
  const scope = classifyAddress({ family, text: address });
  return scope === 'unicast' ? null : complaints[scope];
}

import type { EndpointPort, BenchService } from '../shared/service-objects.ts';
import type { Host } from '../../../test/support/network/layout.ts';

/**
 * So many Services there are in a storm, with so many endpoints each. Three kube-proxies in iptables mode leave 6 % of two processors
 * with 1,000 of them, and everything on the machine is late then.
 */
export const serviceCount = 300;
const endpointCount = 3;

/** What the endpoints listen on, on nodes none of which is here. */
export const endpointPort: EndpointPort = {
  protocol: 'TCP',
  port: 8080,
  locate: (index) => `elsewhere-${index}`,
};

/** An address of the network that the seat is in. */
export const seatNetwork = '10.78.1.99';

/** What masters have of the network that the addresses are of, beside their own. */
export function toSecondAddress({ addresses: { ipv4 } }: Host): string {
  return `${ipv4.replace('10.77.', '10.78.')}/16`;
}

/** All addresses of Services, for whoever removes them, and how each begins that is there all the time. */
export const addressNetwork = '10.78.16.0/20';
export const addressBeginning = '10.78.1';

const addressBase = 10 * 2 ** 24 + 78 * 2 ** 16 + 16 * 2 ** 8;
const endpointBase = 10 * 2 ** 24 + 128 * 2 ** 16;

/** Addresses of endpoints that come: none comes twice. */
const freshBase = 10 * 2 ** 24 + 192 * 2 ** 16;

/** The Service of a number from 0. Those from `serviceCount` on come and go. */
export function toService(number: number): BenchService {
  return {
    name: `web-${number}`,
    // There is room for 4,096: whoever comes and goes takes the same addresses again and again.
    vip: toAddress(addressBase + (number % 4096)),
    endpoints: Array.from({ length: endpointCount }, (_, index) =>
      toAddress(endpointBase + number * endpointCount + index),
    ),
  };
}

/** The same Service with another endpoint in the place of one of its own; `change` is a number that was never given before. */
export function changeEndpoint(service: BenchService, change: number): BenchService {
  const endpoints = service.endpoints.with(change % endpointCount, toAddress(freshBase + change));
  return { ...service, endpoints };
}

function toAddress(number: number): string {
  return [24, 16, 8, 0].map((bits) => (number >>> bits) & 255).join('.');
}

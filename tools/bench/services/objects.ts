import { type EndpointPort, type BenchService, locateSlice, makeSlice } from '../shared/service-objects.ts';

/** Endpoints of each Service: as many as one EndpointSlice has by default. */
export const endpointCount = 100;

/** The endpoints are on so many nodes, none of which is here. */
const nodeCount = 50;

/** What the endpoints listen on. */
export const endpointPort: EndpointPort = {
  protocol: 'TCP',
  port: 8080,
  locate: (index) => `elsewhere-${index % nodeCount}`,
};

/** 10.128.0.0: the endpoints' addresses, one after the other. `services follow` knows the network. */
export const firstEndpoint = '10.128.0.0';
const endpointBase = 10 * 2 ** 24 + 128 * 2 ** 16;

/** Addresses of endpoints that come: none comes twice. */
const freshBase = 10 * 2 ** 24 + 192 * 2 ** 16;

/** The Service of a number from 0. */
export function toService(number: number): BenchService {
  return {
    name: `web-${number}`,
    vip: toAddress(10 * 2 ** 24 + 78 * 2 ** 16 + 256 + number),
    endpoints: Array.from({ length: endpointCount }, (_, index) =>
      toAddress(endpointBase + number * endpointCount + index),
    ),
  };
}

/** An EndpointSlice to write: with an address that was never there. */
export interface SliceChange {
  readonly path: string;
  readonly body: object;
  readonly address: string;
}

/**
 * Changes of one endpoint each, of one Service after the other. What came stays: whoever writes once a second must have it all in the
 * end. `first` is the number of changes that there were before.
 */
export function listChanges(services: readonly BenchService[], first: number, count: number): SliceChange[] {
  const current = [...services];
  return Array.from({ length: count }, (_, index) => {
    const place = index % services.length;
    const service = current[place] ?? toService(0);
    const address = toAddress(freshBase + first + index);
    const endpoints = service.endpoints.with(Math.floor(index / services.length), address);
    const changed = { ...service, endpoints };
    current[place] = changed;
    return { path: locateSlice(changed), body: makeSlice(changed, endpointPort), address };
  });
}

function toAddress(number: number): string {
  return [24, 16, 8, 0].map((bits) => (number >>> bits) & 255).join('.');
}

import { type Address, type Family, parseAddress } from './address.ts';

/** An address and a TCP port: a VIP with its port, or one apiserver. The address is in canonical text. */
export interface Endpoint {
  readonly family: Family;
  readonly address: string;
  /** 1 to 65535. */
  readonly port: number;
}

/**
 * Reads `ADDR:PORT`, `[ADDR6]:PORT`, or, when a default port is given, a bare `ADDR` of either family.
 * Answers null when it is none of these or the port is not 1 to 65535 in plain decimal.
 */
export function parseEndpoint(text: string, defaultPort?: number): Endpoint | null {
  const bare = parseAddress(text);
  if (bare !== null) return defaultPort === undefined ? null : toEndpoint(bare, defaultPort);
  return parseBracketed(text) ?? parsePlain(text);
}

/** `10.0.0.1:6443` or `[fd00::1]:6443`: the text by which endpoints are compared, sorted and printed. */
export function formatEndpoint({ family, address, port }: Endpoint): string {
  return family === 'ipv6' ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The same endpoints once each, ordered by their text, so that equal sets render to equal bytes (I3). */
export function sortEndpoints(endpoints: readonly Endpoint[]): Endpoint[] {
  const byText = new Map(endpoints.map((endpoint) => [formatEndpoint(endpoint), endpoint]));
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
}

/** Whether two lists hold the same endpoints, whatever their order. */
export function areSameEndpoints(left: readonly Endpoint[], right: readonly Endpoint[]): boolean {
  const toText = (endpoints: readonly Endpoint[]) => sortEndpoints(endpoints).map(formatEndpoint).join();
  return toText(left) === toText(right);
}

/** `[ADDR6]:PORT` */
function parseBracketed(text: string): Endpoint | null {
  const [, address = '', port = ''] = /^\[([^\]]+)\]:(\d+)$/.exec(text) ?? [];
  return combine(address, port, 'ipv6');
}

/** `ADDR4:PORT` */
function parsePlain(text: string): Endpoint | null {
  const [, address = '', port = ''] = /^([^:]+):(\d+)$/.exec(text) ?? [];
  return combine(address, port, 'ipv4');
}

function combine(addressText: string, portText: string, family: Family): Endpoint | null {
  const address = parseAddress(addressText);
  if (address?.family !== family || !/^[1-9]\d{0,4}$/.test(portText)) return null;
  const port = Number(portText);
  return port <= 65535 ? toEndpoint(address, port) : null;
}

function toEndpoint({ family, text }: Address, port: number): Endpoint {
  return { family, address: text, port };
}

/** Whether a connection to it is one to a virtual IP, whatever its port. Pure. */
export function isAtVip({ address }: Endpoint, vips: readonly Endpoint[]): boolean {
  return vips.some((vip) => vip.address === address);
}

import * as z from 'zod/mini';
import { type Address, parseAddress } from '../lib/address/address.ts';
import { type Endpoint, parseEndpoint } from '../lib/address/endpoint.ts';
import { classifyAddress, type Scope } from '../lib/address/scope.ts';

/** The port of a VIP that is given without one: kubeadm's, and the apiserver's own default. */
export const defaultVipPort = 6443;

/** Messages complete a sentence that starts with the flag and the text: `--vip 10.0.0.300` + `is not an IP address`. */
const wrongKind = { error: ({ input }: { input?: unknown }) => `must be text, not ${nameKind(input)}` };

/** Reads `ADDR[:PORT]` of an address that one host can hold. */
export const vip = z.pipe(z.string(wrongKind), z.transform(toEndpoint(defaultVipPort)));

/** Reads `ADDR:PORT` of an address that one host can hold; names are not looked up. */
export const endpoint = z.pipe(z.string(wrongKind), z.transform(toEndpoint()));

/** Reads `ADDR:PORT` of an address that a server can listen at, or `off`, which is null. */
export const listenAddress = z.pipe(z.string(wrongKind), z.transform(toListenAddress));

/** Reads `ADDR` of an address that one host or one Service can hold. */
export const address = z.pipe(z.string(wrongKind), z.transform(toAddress));

/** Reads a list of values, each by the same schema. */
export function list<T extends z.core.SomeType>(element: T): z.ZodMiniArray<T> {
  return z.array(element, wrongKind);
}

/** Reads one of some words. */
export function choice<const T extends readonly string[]>(
  choices: T,
): z.ZodMiniEnum<{ [K in T[number]]: K }> {
  return z.enum(choices, {
    error: ({ input }) =>
      typeof input === 'string' ? `is none of ${choices.join(', ')}` : `must be text, not ${nameKind(input)}`,
  });
}

/** Reads a duration between two bounds, as `250ms` or `1.5s`; answers milliseconds. */
export function duration(
  leastMs: number,
  mostMs: number,
): z.ZodMiniPipe<z.ZodMiniString, z.ZodMiniTransform<number, string>> {
  return z.pipe(
    z.string(wrongKind),
    z.transform((text: string, context: Context) => {
      const [, digits, unit] = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)$/.exec(text) ?? [];
      if (digits === undefined) return refuse(context, 'is not a duration with its unit, ms or s');
      const ms = Number(digits) * (unit === 's' ? 1000 : 1);
      return ms >= leastMs && ms <= mostMs
        ? ms
        : refuse(context, `is not between ${leastMs}ms and ${mostMs / 1000}s`);
    }),
  );
}

/** Reads a whole number between two bounds, in plain decimal. */
export function wholeNumber(
  least: number,
  most: number,
): z.ZodMiniPipe<z.ZodMiniString, z.ZodMiniTransform<number, string>> {
  return z.pipe(
    z.string(wrongKind),
    z.transform((text: string, context: Context) => {
      const value = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
      if (value >= least && value <= most) return value;
      return refuse(context, `is not a whole number from ${least} to ${most}`);
    }),
  );
}

/** No command line can hold a NUL, and nobody can read a path with a line break. */
const isPlain = z.regex(/^\P{Cc}*$/u, { error: 'has a control character' });

/** Reads the path of a file; whether it is there is another question. */
export const path = z.string(wrongKind).check(isPlain);

/** Reads the path of a folder from the root on: what the agent is started in differs. */
export const folder = z
  .string(wrongKind)
  .check(z.regex(/^\//, { error: 'is not a path that begins with /' }), isPlain);

/** Reads the name of a Node: labels with points, as Kubernetes takes them for objects. */
export const nodeName = z.string(wrongKind).check(
  z.regex(/^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/, {
    error: 'is not a name of a node: use a-z, 0-9, - and dots between, as kubectl get nodes prints it',
  }),
);

type Context = z.core.ParsePayload;

function toEndpoint(defaultPort?: number): (text: string, context: Context) => Endpoint {
  return (text, context) => {
    const read = parseEndpoint(text, defaultPort);
    if (read === null) return refuse(context, explainEndpoint(text));
    const complaint = complaints[classifyAddress({ family: read.family, text: read.address })];
    return complaint === undefined ? read : refuse(context, complaint);
  };
}

/** Here the unspecified address means all of this host's. */
function toListenAddress(text: string, context: Context): Endpoint | null {
  if (text === 'off') return null;
  const read = parseEndpoint(text);
  if (read === null) return refuse(context, explainEndpoint(text));
  const scope = classifyAddress({ family: read.family, text: read.address });
  const complaint = scope === 'loopback' || isAnyAddress(read) ? undefined : complaints[scope];
  return complaint === undefined ? read : refuse(context, complaint);
}

/** 0.0.0.0 alone of its range. */
function isAnyAddress({ address: text }: Endpoint): boolean {
  return text === '0.0.0.0' || text === '::';
}

function toAddress(text: string, context: Context): Address {
  const address = parseAddress(text);
  if (address === null) return refuse(context, 'is not an IP address');
  const complaint = complaints[classifyAddress(address)];
  return complaint === undefined ? address : refuse(context, complaint);
}

/** Why no endpoint could be read: the address, the port, or an IPv6 address whose port needs brackets. */
function explainEndpoint(text: string): string {
  const bare = parseAddress(text);
  if (bare?.family === 'ipv6') return 'needs brackets and a port: [ADDR]:PORT';
  const host = /^\[(?<ipv6>[^\]]*)\]|^(?<ipv4>[^:]*)/.exec(text);
  const address = parseAddress(host?.groups?.['ipv6'] ?? host?.groups?.['ipv4'] ?? '');
  return address === null ? 'is not an IP address' : 'needs a port from 1 to 65535';
}

const complaints: Readonly<Partial<Record<Scope, string>>> = {
  unspecified: 'is the unspecified address: no host has it',
  loopback: 'is a loopback address: other hosts cannot reach it',
  linkLocal: 'is a link-local address: it means another host on each link',
  multicast: 'is a multicast address, not one host',
  broadcast: 'is a broadcast address, not one host',
  ipv4Mapped: 'is an IPv4 address in IPv6 form: write it in IPv4 form',
};

function refuse(context: Context, message: string): never {
  context.issues.push({ code: 'custom', message, input: context.value });
  return z.NEVER;
}

function nameKind(input: unknown): string {
  if (input === null) return 'nothing';
  return Array.isArray(input) ? 'a list' : 'a map';
}

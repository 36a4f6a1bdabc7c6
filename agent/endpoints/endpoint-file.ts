/**
 * The text of the file in which an agent keeps the apiservers that it last knew.
 *
 * Goal: after a reboot with no API and no kube-proxy the VIP is balanced, over apiservers that were real.
 * Tension: whatever the file says becomes a rule in the kernel, and it may be torn, edited, or from another program.
 * Compromise: a checksum over all of it. What does not hold is named and ignored as a whole.
 */
import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { type Endpoint, formatEndpoint, parseEndpoint } from '../../lib/address/endpoint.ts';
import { classifyAddress } from '../../lib/address/scope.ts';
import { maxEndpoints } from './admission.ts';

/** What the file holds. */
export interface SavedEndpoints {
  /** When it was written, as in ISO 8601. */
  readonly savedAt: string;
  /** Of all families, at least one, each an address that one host can hold. */
  readonly endpoints: readonly Endpoint[];
  /** Previous apiservers of all families, the latest first; none when left out. */
  readonly former?: readonly Endpoint[];
}

/** Raised when a reader of the version before would be wrong. */
const version = 1 as const;

const schema = z.strictObject({
  version: z.literal(version),
  savedAt: z.iso.datetime(),
  endpoints: z.array(z.string()).check(z.minLength(1), z.maxLength(maxEndpoints)),
  former: z.optional(z.array(z.string()).check(z.maxLength(maxEndpoints))),
  checksum: z.string(),
});

/** One line of JSON, with its end. */
export function formatEndpointFile({ savedAt, endpoints, former }: SavedEndpoints): string {
  const content = {
    version,
    savedAt,
    endpoints: endpoints.map(formatEndpoint),
    ...(former === undefined ? {} : { former: former.map(formatEndpoint) }),
  };
  return `${JSON.stringify({ ...content, checksum: toChecksum(content) })}\n`;
}

/** Reads such a text; answers a phrase instead that says what is wrong with it, for after the file's name. Total. */
export function parseEndpointFile(text: string): SavedEndpoints | string {
  if (text === '') return 'is empty';
  const json = readJson(text);
  if (json === undefined || !text.endsWith('\n')) return 'is cut off, or is not a file of vipnat';
  if (isNewer(json)) return `is from a newer vipnat (version ${json.version})`;
  const result = schema.safeParse(json);
  if (!result.success) return 'is not a file of vipnat';
  const { checksum, ...content } = result.data;
  if (checksum !== toChecksum(content)) return 'is damaged or was edited: its checksum does not match';
  const { savedAt, endpoints, former } = content;
  const odd = [...endpoints, ...(former ?? [])].find((named) => toUsable(named) === null);
  if (odd !== undefined) return `names ${JSON.stringify(odd)}, which cannot be the address of an apiserver`;
  return {
    savedAt,
    endpoints: toEndpoints(endpoints),
    ...(former === undefined ? {} : { former: toEndpoints(former) }),
  };
}

function toEndpoints(texts: readonly string[]): Endpoint[] {
  return texts.map(toUsable).filter((endpoint) => endpoint !== null);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isNewer(json: unknown): json is { readonly version: number } {
  const { version: found } = Object(json) as { readonly version?: unknown };
  return typeof found === 'number' && found > version;
}

function toUsable(text: string): Endpoint | null {
  const endpoint = parseEndpoint(text);
  if (endpoint === null) return null;
  return classifyAddress({ family: endpoint.family, text: endpoint.address }) === 'unicast' ? endpoint : null;
}

function toChecksum({
  version,
  savedAt,
  endpoints,
  former,
}: Omit<z.output<typeof schema>, 'checksum'>): string {
  const text = JSON.stringify({ version, savedAt, endpoints, former });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}

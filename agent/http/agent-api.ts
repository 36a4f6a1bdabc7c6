import * as z from 'zod/mini';
import { parseAddress } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint, parseEndpoint } from '../../lib/address/endpoint.ts';
import { type ApiView } from '../api/cluster-api.ts';
import { maxAffinitySeconds } from '../api/view.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { agentRole, askHolder, line } from '../../lib/http/singleton.ts';

/** Answers are checked, because they become rules and any process may hold the agent's socket name. */
const endpoint = z
  .object({ family: z.enum(['ipv4', 'ipv6']), address: z.string(), port: z.number() })
  .check(z.refine(isEndpoint));
const address = z.string().check(z.refine((text) => parseAddress(text)?.text === text));
const finding = z.object({ value: z.array(endpoint), seenIn: line });
const clusterIps = z
  .partialRecord(z.enum(['ipv4', 'ipv6']), address)
  .check(
    z.refine((found) =>
      Object.entries(found).every(([family, text]) => parseAddress(text)?.family === family),
    ),
  );
const seconds = z.int().check(z.minimum(1), z.maximum(maxAffinitySeconds));

const answer = z.object({
  /** Agents of older versions do not tell it. */
  proxyBesideApi: z._default(z.partialRecord(z.enum(['ipv4', 'ipv6']), z.array(endpoint)), {}),
  view: z.nullable(
    z.object({
      endpoints: z.partialRecord(z.enum(['ipv4', 'ipv6']), finding),
      clusterIps,
      affinitySeconds: z.nullable(seconds),
      refused: z.array(line),
      isCurrent: z.boolean(),
    }),
  ),
});

/** What the API has said to an agent, and what that holds it against while the API is lost. */
export interface ApiSnapshot extends Pick<ReconcileState, 'proxyBesideApi'> {
  readonly view: ApiView | null;
}

/** Where the agent of this network namespace tells what the Kubernetes API has said to it. */
export const apiPath = '/api';

/**
 * What the Kubernetes API has said to the running agent, which may be nothing, so that what is shown is what is done,
 * also while the API is lost. Null when none runs or none answers.
 */
export async function askAgentApi(): Promise<ApiSnapshot | null> {
  return readAgentApiAnswer(await askHolder(agentRole, apiPath));
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readAgentApiAnswer(json: unknown): ApiSnapshot | null {
  const parsed = answer.safeParse(json);
  return parsed.success ? parsed.data : null;
}

function isEndpoint(given: Endpoint): boolean {
  const read = parseEndpoint(formatEndpoint(given));
  return read !== null && read.family === given.family && read.address === given.address;
}

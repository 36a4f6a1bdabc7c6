import * as z from 'zod/mini';
import { defaultListen } from '../../../config/config.ts';
import { quoteText } from '../../../config/setting.ts';
import { listenAddress } from '../../../config/values.ts';
import { type Endpoint, formatEndpoint } from '../../../lib/address/endpoint.ts';
import { defaultBalancerListen, type ManifestOptions } from './options.ts';

/** Where balancers serve metrics and readiness; null for nowhere. Only for options without problems. */
export function readBalancerListen({ balancerListen }: ManifestOptions): Endpoint | null {
  return balancerListen === null ? defaultBalancerListen : z.parse(listenAddress, balancerListen);
}

/** What is wrong with it: a balancer is in the network of its node, where an agent may have its own default. */
export function findListenProblems(text: string | null): string[] {
  if (text === null) return [];
  const result = z.safeParse(listenAddress, text);
  const example = `Example: --balancer-listen ${formatEndpoint(defaultBalancerListen)}`;
  if (!result.success) {
    const [issue] = result.error.issues;
    return [`--balancer-listen ${quoteText(text)} ${issue?.message ?? 'is wrong'}. ${example}`];
  }
  if (result.data?.port !== defaultListen.port) return [];
  const rule = 'has the port that the agent of the API has by default on the same node';
  return [`--balancer-listen ${quoteText(text)} ${rule}. ${example}`];
}

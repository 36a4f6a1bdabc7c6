import type { Decision } from '../../../agent/decide/decision.ts';
import { type Endpoint, parseEndpoint } from '../../../lib/net.ts';

/** `10.0.0.11:6443` or `[fd00::11]:6443`. Throws for anything else: a test that mistypes one fails. */
export function toEndpoint(text: string): Endpoint {
  const endpoint = parseEndpoint(text);
  if (endpoint === null) throw new Error(`no endpoint: ${text}`);
  return endpoint;
}

/** A host without kube-proxy. */
export const direct: Decision = {
  vip: toEndpoint('[fd00::50]:6443'),
  mode: 'direct',
  reason: 'this host runs no kube-proxy',
  isBypass: false,
  clusterIp: null,
  affinitySeconds: null,
  backends: [toEndpoint('[fd00::11]:6443')],
};

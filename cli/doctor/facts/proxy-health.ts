import * as z from 'zod/mini';
import { askLoopback, type LoopbackAnswer } from '../../../lib/probe/loopback.ts';

/** kube-proxy as it answers itself. */
export interface ProxyHealth {
  /** The status of its health check; null when nobody answers. */
  readonly status: number | null;
  /** `ipvs.excludeCIDRs` of its configuration, and whether it sets the kernel's ARP switches; null when it does not say. */
  readonly ipvs: { readonly excludeCidrs: readonly string[]; readonly strictArp: boolean } | null;
}

/** --healthz-bind-address: by default on every address. */
const healthUrls = ['http://127.0.0.1:10256/healthz', 'http://[::1]:10256/healthz'];

/** Beside /proxyMode. */
const configUrls = ['http://127.0.0.1:10249/configz', 'http://[::1]:10249/configz'];

/** A configuration takes 3,000 characters, lists of networks can be long; a host in trouble is slow. */
const limits = { limitMs: 4000, maxLength: 100_000 };

const configz = z.object({
  'kubeproxy.config.k8s.io': z.object({
    ipvs: z.object({ excludeCIDRs: z.nullable(z.array(z.string())), strictARP: z.boolean() }),
  }),
});

/** Asks kube-proxy how it is and how it is set. Never rejects. Source: cmd/kube-proxy/app/server.go, pkg/proxy/healthcheck. */
export async function askProxyHealth(): Promise<ProxyHealth> {
  const [health, config] = await Promise.all([askFirst(healthUrls), askFirst(configUrls)]);
  const parsed = configz.safeParse(parseJson(config?.body ?? ''));
  if (!parsed.success) return { status: health?.status ?? null, ipvs: null };
  const { excludeCIDRs, strictARP } = parsed.data['kubeproxy.config.k8s.io'].ipvs;
  return {
    status: health?.status ?? null,
    ipvs: { excludeCidrs: excludeCIDRs ?? [], strictArp: strictARP },
  };
}

/** Whoever answers first is meant, also with an error: a sick kube-proxy answers 503. */
async function askFirst(urls: readonly string[]): Promise<LoopbackAnswer | null> {
  for (const url of urls) {
    const answer = await askLoopback(url, limits);
    if (answer !== null) return answer;
  }
  return null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

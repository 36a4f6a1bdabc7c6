import { askLoopback } from '../../lib/probe/loopback.ts';

/** kube-proxy's metrics listener, by default on the loopback address of its bind address's family (--metrics-bind-address). */
const urls = ['http://127.0.0.1:10249/proxyMode', 'http://[::1]:10249/proxyMode'];

/** On loopback an answer takes a millisecond, and one who hangs must not hold up a look; the longest true one is `nftables`. */
const limits = { limitMs: 250, maxLength: 64 };

/**
 * Asks kube-proxy for its effective mode: the word it answers, trimmed and not checked, or null when nobody
 * answers in time. Never throws. Source: cmd/kube-proxy/app, handler /proxyMode.
 */
export async function askProxyMode(): Promise<string | null> {
  for (const url of urls) {
    const answer = await askLoopback(url, limits);
    if (answer?.status === 200) return answer.body.trim();
  }
  return null;
}

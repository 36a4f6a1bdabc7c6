import { get } from 'node:http';

/** kube-proxy's metrics listener, by default on the loopback address of its bind address's family (--metrics-bind-address). */
const urls = ['http://127.0.0.1:10249/proxyMode', 'http://[::1]:10249/proxyMode'];

/** On loopback an answer takes a millisecond; a kube-proxy that hangs must not hold up a look. */
const timeoutMs = 250;

/** The longest true answer is `nftables`. */
const maxAnswerLength = 64;

/**
 * Asks kube-proxy for its effective mode: the word it answers, trimmed and not checked, or null when nobody
 * answers in time. Never throws. Source: cmd/kube-proxy/app, handler /proxyMode.
 */
export async function askProxyMode(): Promise<string | null> {
  for (const url of urls) {
    const answer = await ask(url);
    if (answer !== null) return answer;
  }
  return null;
}

function ask(url: string): Promise<string | null> {
  return new Promise((resolve) => {
    const giveUp = () => {
      resolve(null);
    };
    const question = get(url, { agent: false, signal: AbortSignal.timeout(timeoutMs) }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
        if (body.length > maxAnswerLength) question.destroy();
      });
      response.on('end', () => {
        resolve(response.statusCode === 200 ? body.trim() : null);
      });
      response.on('error', giveUp).on('close', giveUp);
    });
    question.on('error', giveUp);
  });
}

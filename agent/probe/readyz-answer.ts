import { type IncomingMessage } from 'node:http';
import { type ReadyzOutcome } from './apiserver.ts';
import { apiserverProbe, type HttpsGet } from '../../lib/probe/probe-handler.ts';

/** The answer of an apiserver in trouble lists its checks, a line each: far less than this. */
const maxBodyLength = 16_384;

/**
 * What an answer to a GET says, of which the body is known as far as it came. `livenessOnly` of one that is refused is the beginning of a
 * phrase: `/readyz answers 401`. Pure and total.
 */
export function judge(
  { statusCode = 0, complete }: Pick<IncomingMessage, 'statusCode' | 'complete'>,
  body: string,
  { path }: Pick<HttpsGet, 'path'> = apiserverProbe.httpsGet,
): ReadyzOutcome {
  if (!complete) return { kind: 'closed' };
  if (statusCode === 200) return { kind: 'ready' };
  const words = `${path} answers ${statusCode}`;
  // kube-apiserver asks who somebody is before it asks how itself is.
  if (statusCode === 401 || statusCode === 403) return { kind: 'ready', livenessOnly: words };
  return {
    kind: 'failing',
    reason: `${words}${describeChecks(body)}`,
    // During --shutdown-delay-duration, kube-apiserver 1.20 and later.
    cause: /^\[-\]shutdown failed/m.test(body) ? 'shutdown' : 'other',
  };
}

/** The body as far as it is of interest; what came before the connection broke, when it did. */
export function readBody(response: IncomingMessage): Promise<string> {
  return new Promise((resolve) => {
    let body = '';
    response.setEncoding('utf8').on('data', (chunk: string) => {
      if (body.length < maxBodyLength) body += chunk;
    });
    response
      .on('error', () => undefined)
      .on('close', () => {
        resolve(body);
      });
  });
}

/** `: [-]shutdown failed`: the checks that fail, in kube-apiserver's own words (staging/src/k8s.io/apiserver/pkg/server/healthz). */
function describeChecks(body: string): string {
  const failed = [...body.matchAll(/^\[-\][\w/.-]{1,80} failed/gm)].map(([check]) => check);
  return failed.length === 0 ? '' : `: ${failed.slice(0, 3).join(', ')}`;
}

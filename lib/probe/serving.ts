import { get } from 'node:https';
import { TLSSocket } from 'node:tls';
import { type Endpoint } from '../address/endpoint.ts';
import { type Clock } from '../control/clock.ts';
import { apiserverProbe, toRequest } from './probe-handler.ts';

/** How an apiserver shows itself to whoever connects. */
export interface Serving {
  /** The names and addresses of its certificate as Node prints them: `DNS:kubernetes, IP Address:10.96.0.1`. */
  readonly alternativeNames: string;
  /** Until when the certificate counts. */
  readonly validTo: Date;
  /** How far its clock is before this host's in milliseconds, to about half a second; null when it does not tell the time. */
  readonly clockAheadMs: number | null;
}

/** The Date header has whole seconds, cut off (RFC 9110, section 5.6.7). */
const halfSecondMs = 500;

/**
 * Connects once, to look and not to trust: nothing secret is sent, and no certificate is verified. Null when there was
 * no answer within the limit. Never rejects.
 */
export function askServing(endpoint: Endpoint, clock: Clock, limitMs: number): Promise<Serving | null> {
  return new Promise((resolve) => {
    const asked = clock.date().getTime();
    const request = get(
      {
        ...toRequest(apiserverProbe, endpoint),
        agent: false,
        rejectUnauthorized: false,
      },
      ({ socket, headers }) => {
        const middle = (asked + clock.date().getTime()) / 2;
        const told = Date.parse(headers.date ?? '');
        if (!(socket instanceof TLSSocket)) throw new TypeError('HTTPS came without TLS');
        const { subjectaltname, valid_to } = socket.getPeerCertificate();
        cancel();
        request.destroy();
        resolve({
          alternativeNames: subjectaltname ?? '',
          validTo: new Date(valid_to),
          clockAheadMs: Number.isNaN(told) ? null : told + halfSecondMs - middle,
        });
      },
    );
    request.on('error', () => {
      cancel();
      resolve(null);
    });
    const cancel = clock.schedule(limitMs, () => request.destroy(new Error('no answer in time')));
  });
}

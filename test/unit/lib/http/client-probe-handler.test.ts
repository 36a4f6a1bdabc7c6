import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { test, expect } from '@jest/globals';
import { toRequest, apiserverProbe, locateProbe } from '../../../../lib/http/client.ts';
import { judge } from '../../../../agent/health/connection.ts';

const backend = toEndpoint('10.0.0.11:6443');

test('an apiserver is asked for /readyz at its own port', () => {
  expect(toRequest(apiserverProbe, backend)).toEqual({ host: '10.0.0.11', port: 6443, path: '/readyz' });
});

test('another backend can be asked for another path at another port', () => {
  const probe = { httpsGet: { path: '/healthz', port: 10256 } };
  expect(toRequest(probe, backend)).toEqual({ host: '10.0.0.11', port: 10256, path: '/healthz' });
});

test.each([
  ['its own port', {}, 6443],
  ['another port', { port: 22 }, 22],
])('a backend can be connected to only, at %s', (_, tcpSocket, port) => {
  expect(locateProbe({ tcpSocket }, backend)).toEqual({ ...backend, port });
});

test('what fails names the path that was asked for', () => {
  const answer = { statusCode: 503, complete: true };
  expect(judge(answer, '')).toMatchObject({ reason: '/readyz answers 503' });
  expect(judge(answer, '', { path: '/healthz' })).toMatchObject({ reason: '/healthz answers 503' });
});

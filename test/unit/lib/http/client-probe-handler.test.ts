import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { test, expect } from '@jest/globals';
import { toReadyzRequest } from '../../../../lib/http/client.ts';
import { judge } from '../../../../agent/health/connection.ts';

test('an apiserver is asked for /readyz at its own port', () => {
  const request = { host: '10.0.0.11', port: 6443, path: '/readyz' };
  expect(toReadyzRequest(toEndpoint('10.0.0.11:6443'))).toEqual(request);
});

test('what fails names the path that was asked for', () => {
  const answer = { statusCode: 503, complete: true };
  expect(judge(answer, '')).toMatchObject({ reason: '/readyz answers 503' });
});

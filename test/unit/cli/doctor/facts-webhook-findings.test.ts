import type { WebhookFacts } from '../../../../cli/doctor/facts.ts';
import { tellServices, wellHost, services, well } from '../../../support/doctor/services-host.ts';
import { test, expect } from '@jest/globals';
import { makePair, judgeTrusted } from '../../../../controller/webhook/certificate.ts';

const dayMs = 86_400_000;

/** What doctor says of it; null for nothing. */
async function tell(webhook: WebhookFacts | null): Promise<string | null> {
  const told = await tellServices({ ...wellHost, ...services({ ...well, webhook: { value: webhook } }) });
  const found = told.find(({ code }) => code === 'webhook-not-trusted');
  return found === undefined ? null : `${found.level}: ${'title' in found ? found.title : ''}`;
}

test.each([
  ['nothing is trusted', [], 0, 'warn: the certificate of the webhook is not known to API servers'],
  ['the last one has just been made', [-120, 0], 0, null],
  ['it is to be renewed', [0], 121, null],
  ['it was not renewed', [0], 305.5, 'warn: the certificate of the webhook ends in 59 d'],
  ['it has ended', [0], 370.5, 'warn: the certificate of the webhook ended 5 d ago'],
])('what API servers trust of the webhook: %s', async (_, made, days, words) => {
  const start = Date.now();
  const pairs = await Promise.all(made.map((day) => makePair('a.svc', new Date(start + day * dayMs))));
  const text = pairs.map(({ certificate }) => certificate).join('');
  expect(await tell(judgeTrusted(text, start + days * dayMs))).toBe(words);
});

test('a cluster without the webhook is well', async () => {
  expect(await tell(null)).toBeNull();
});

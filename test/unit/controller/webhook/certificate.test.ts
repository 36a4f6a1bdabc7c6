/** The webhook's certificate, by the clock. Pairs are real; the API is a Secret and a text. */
import type { KeyPair } from '../../../../lib/http/pages.ts';
import { beforeAll, describe, test, expect } from '@jest/globals';
import {
  makePair,
  type SecretData,
  planCertificates,
  readPair,
} from '../../../../controller/webhook/certificate.ts';
import { X509Certificate } from 'node:crypto';

const name = 'vipnat-webhook.vipnat-system.svc';
const dayMs = 86_400_000;
const start = Date.parse('2027-01-15T08:00:00Z');

let first: KeyPair;
let second: KeyPair;
let foreign: KeyPair;

beforeAll(async () => {
  first = await makePair(name, new Date(start));
  second = await makePair(name, new Date(start + 121 * dayMs));
  foreign = await makePair('other.svc', new Date(start));
});

const toBundle = (...all: readonly KeyPair[]) =>
  all
    .map(({ certificate }) => certificate)
    .sort()
    .join('');

const toCurrent = ({ certificate, key }: KeyPair) => ({ 'tls.crt': certificate, 'tls.key': key });
const toNext = ({ certificate, key }: KeyPair) => ({ 'next.crt': certificate, 'next.key': key });

function plan(
  data: SecretData,
  {
    trusted = '',
    days = 0,
    trustedForMs = 0,
    served = null,
  }: { trusted?: string | null; days?: number; trustedForMs?: number; served?: string | null } = {},
) {
  return planCertificates({ name, data, trusted, trustedForMs, served, nowMs: start + days * dayMs });
}

describe('a certificate', () => {
  test('is valid for its server alone, a year before it was made and a year after, and may sign no other', () => {
    const read = new X509Certificate(first.certificate);
    expect(read.validFromDate.getTime()).toBe(start - 365 * dayMs);
    expect(read.validToDate.getTime()).toBe(start + 365 * dayMs);
    expect(read.checkHost('kubernetes.default.svc')).toBeUndefined();
    expect([read.ca, read.verify(read.publicKey)]).toEqual([false, true]);
  });

  test('with the key of another, of another server, with none, or that TLS refuses is no pair', () => {
    expect(readPair(name, first.certificate, first.key)).toMatchObject({ madeMs: start });
    expect(readPair(name, first.certificate, second.key)).toBeNull();
    expect(readPair(name, foreign.certificate, foreign.key)).toBeNull();
    expect(readPair(name, first.certificate, '')).toBeNull();
    const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    expect(readPair(name, `${first.certificate}${broken}`, first.key)).toBeNull();
  });
});

test('without a Secret a pair is made; it is trusted, and after half a minute served', () => {
  expect(plan({})).toEqual({ step: 'make', previous: '' });
  const data = toNext(first);
  expect(plan(data)).toEqual({ step: 'trust', trusted: first.certificate });
  const trusted = first.certificate;
  expect(plan(data, { trusted, trustedForMs: 1000 })).toEqual({ step: 'wait', ms: 29_000 });
  expect(plan(data, { trusted, trustedForMs: 30_000 })).toMatchObject({ step: 'serve', previous: '' });
  expect(plan(toCurrent(first), { trusted })).toEqual({ step: 'wait', ms: 60_000 });
});

test('after 120 days the next one is made: both are trusted before it is served, and still afterwards', () => {
  const trusted = first.certificate;
  expect(plan(toCurrent(first), { trusted, days: 119 })).toMatchObject({ step: 'wait' });
  expect(plan(toCurrent(first), { trusted, days: 121 })).toEqual({ step: 'make', previous: '' });
  const both = toBundle(first, second);
  const data = { ...toCurrent(first), ...toNext(second) };
  expect(plan(data, { trusted, days: 121 })).toEqual({ step: 'trust', trusted: both });
  expect(plan(data, { trusted: both, days: 121, trustedForMs: 30_000 })).toMatchObject({
    ...{ step: 'serve', pair: second, previous: first.certificate },
  });
  const after = { ...toCurrent(second), 'previous.crt': first.certificate };
  expect(plan(after, { trusted: both, days: 121 })).toEqual({ step: 'wait', ms: 60_000 });
});

test('the date of another host may be months ahead or behind', () => {
  const trusted = first.certificate;
  for (const days of [-119, 119])
    expect(plan(toCurrent(first), { trusted, days })).toMatchObject({ step: 'wait' });
  // What was made by a date far ahead is made again when the date is right.
  expect(plan(toCurrent(second), { trusted, days: 0 })).toMatchObject({ step: 'make' });
});

test('a Secret that somebody deleted, or that has nonsense, is made again, and what was served stays trusted', () => {
  const trusted = first.certificate + second.certificate + foreign.certificate;
  const nonsense = { 'tls.crt': 'x', 'tls.key': 'y', 'next.crt': first.certificate, 'next.key': second.key };
  for (const data of [{}, nonsense])
    expect(plan(data, { trusted })).toEqual({ step: 'make', previous: toBundle(first, second) });
  // What this process serves with is known, whatever is trusted.
  for (const known of ['', second.certificate])
    expect(plan({}, { trusted: known, served: second.certificate })).toMatchObject({
      previous: second.certificate,
    });
  const data = { ...toNext(first), 'previous.crt': second.certificate };
  expect(plan(data, { trusted })).toEqual({ step: 'trust', trusted: toBundle(first, second) });
  expect(plan({ ...toNext(first), 'previous.crt': 'x' }, { trusted })).toMatchObject({
    trusted: first.certificate,
  });
});

test('what somebody else writes to be trusted is put right', () => {
  for (const trusted of ['', 'x', foreign.certificate])
    expect(plan(toCurrent(first), { trusted })).toEqual({ step: 'trust', trusted: first.certificate });
});

test('where the webhook is not configured, the pair is ready all the same', () => {
  expect(plan({}, { trusted: null })).toMatchObject({ step: 'make' });
  expect(plan(toNext(first), { trusted: null, trustedForMs: 30_000 })).toMatchObject({ step: 'serve' });
});

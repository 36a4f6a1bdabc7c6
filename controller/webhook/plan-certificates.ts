/**
 * What is to be done next for the webhook's certificate, decided from what the API has.
 *
 * Goal: the API server trusts every certificate that a controller serves with, at every moment.
 * Tension: controllers, API servers and whoever applies a manifest hear of a change one after the other.
 * Compromise: a new certificate is first only trusted, then served. The one before stays trusted until the next is made.
 */
import { findNewest, type ReadPair, readPair } from './certificate.ts';

/** The data of the Secret, decoded. Missing fields are left out. */
export type SecretData = Readonly<Record<string, string>>;

/** Where in the Secret is what. */
export const secretFields = {
  /** The pair that is served. */
  certificate: 'tls.crt',
  key: 'tls.key',
  /** The pair that is served after it, once it is trusted. */
  nextCertificate: 'next.crt',
  nextKey: 'next.key',
  /** The certificate before, which is still trusted. */
  previous: 'previous.crt',
} as const;

/** The pairs of the Secret; null for those that are missing or no good. */
export interface SecretPairs {
  readonly current: ReadPair | null;
  readonly next: ReadPair | null;
}

/** Reads them, for a server of this name. */
export function readPairs(name: string, data: SecretData): SecretPairs {
  const { certificate, key, nextCertificate, nextKey } = secretFields;
  const read = (one: string, other: string) => readPair(name, data[one] ?? '', data[other] ?? '');
  return { current: read(certificate, key), next: read(nextCertificate, nextKey) };
}

/** What is known. */
export interface CertificateView {
  readonly name: string;
  /** Empty where there is no Secret. */
  readonly data: SecretData;
  /** What API servers trust, as PEM; null where the webhook is not configured. */
  readonly trusted: string | null;
  /** For how long that has been as it is now, as far as this process knows. */
  readonly trustedForMs: number;
  /** Since 1970. */
  readonly nowMs: number;
}

/** What is to be done. */
export type CertificateStep =
  /** Make a pair, and keep it as the next one. `previous` is what has to stay trusted if no pair is served. */
  | { readonly step: 'make'; readonly previous: string | null }
  /** Have the API servers trust these, as PEM. */
  | { readonly step: 'trust'; readonly trusted: string }
  /** Serve the next pair. */
  | { readonly step: 'serve'; readonly pair: ReadPair; readonly previous: string | null }
  /** Nothing, for so long or until something changes. */
  | { readonly step: 'wait'; readonly ms: number };

/** A third of the time for which a certificate is valid from now on. By a date that went back, it is as old. */
const renewMs = 120 * 86_400_000;

/** Far longer than an API server takes to hear of the configuration. */
const settleMs = 30_000;

/** How often the date is looked at. */
const restMs = 60_000;

/** Decides the next step. Pure. */
export function planCertificates(view: CertificateView): CertificateStep {
  const { name, data, trusted, nowMs } = view;
  const { current, next } = readPairs(name, data);
  if (next === null && isToReplace(current, nowMs))
    // What is served without a Secret is known from what is trusted.
    return { step: 'make', previous: current === null ? findNewest(name, trusted ?? '') : null };
  // A missing field is no certificate.
  const before = findNewest(name, data[secretFields.previous] ?? '');
  const wanted = joinCertificates([current, next], before);
  if (isToWrite(trusted, wanted)) return { step: 'trust', trusted: wanted };
  const previous = current?.certificate ?? before;
  return next === null ? { step: 'wait', ms: restMs } : serveNext(next, previous, view);
}

function isToWrite(trusted: string | null, wanted: string): boolean {
  return trusted !== null && trusted !== wanted;
}

function isToReplace(current: ReadPair | null, nowMs: number): boolean {
  return current === null || Math.abs(nowMs - current.madeMs) > renewMs;
}

function serveNext(
  pair: ReadPair,
  previous: string | null,
  { trustedForMs }: CertificateView,
): CertificateStep {
  if (trustedForMs < settleMs) return { step: 'wait', ms: settleMs - trustedForMs };
  return { step: 'serve', pair, previous };
}

/** Which of them is served makes no difference to who trusts them. */
function joinCertificates(pairs: readonly (ReadPair | null)[], before: string | null): string {
  const texts = [...pairs.map((pair) => pair?.certificate ?? null), before].filter((text) => text !== null);
  return [...new Set(texts)].sort().join('');
}

import type { ApiRoute } from '../../lib/kubernetes/route.ts';
import { type Clock, systemClock, Rounds, backOff } from '../../lib/clock.ts';
import { createLister } from '../../lib/kubernetes/list-watch.ts';
import { type KeyPair, canServeWith } from '../../lib/http/pages.ts';
import { promisify } from 'node:util';
import {
  generateKeyPair,
  X509Certificate,
  createPrivateKey,
  type KeyPairKeyObjectResult,
  randomBytes,
  sign,
} from 'node:crypto';
import * as z from 'zod/mini';
import {
  name,
  objectVersion,
  selectName,
  type AnswerLimits,
  type Resource,
} from '../../lib/kubernetes/client.ts';
import { webhookName } from '../../lib/api/vipnat.ts';
import { webhookEntry, toServerName } from '../../lib/api/endpoints.ts';
import type { ObjectClient, ObjectWrite } from '../../lib/kubernetes/writes.ts';

interface WebhookFacts {
  /** In how long the last certificate ends that they trust: less than 0 for one that has ended. Null where they trust none. */
  readonly leftMs: number | null;
}

/** Asks the API. Null where the webhook is not configured. Rejects as listObjects does. */
export async function inspectWebhook(route: ApiRoute): Promise<WebhookFacts | null> {
  const list = createLister(route, systemClock, new AbortController().signal);
  const [configuration = null] = await list(webhookConfigurations);
  const trusted = readTrusted(configuration);
  return trusted === null ? null : judgeTrusted(trusted, systemClock.date().getTime());
}

/** Reads what is trusted, as PEM. Pure. */
export function judgeTrusted(trusted: string, nowMs: number): WebhookFacts {
  const [newest] = readNewest(null, trusted);
  return { leftMs: newest === undefined ? null : newest.untilMs - nowMs };
}

/**
 * What is to be done next for the webhook's certificate, decided from what the API has.
 *
 * Goal: the API server trusts every certificate that a controller serves with, at every moment.
 * Tension: controllers, API servers and whoever applies a manifest learn of a change one after the other.
 * Compromise: a new certificate is first only trusted, then served. What was trusted before stays trusted until the next is made.
 */

/** The data of the Secret, decoded. Missing fields are left out. */
export type SecretData = Readonly<Record<string, string>>;

/** Where in the Secret is what. */
const secretFields = {
  /** The pair that is served. */
  certificate: 'tls.crt',
  key: 'tls.key',
  /** The pair that is served after it, once it is trusted. */
  nextCertificate: 'next.crt',
  nextKey: 'next.key',
  /** The certificates before, which are still trusted. */
  previous: 'previous.crt',
} as const;

/** Reads the pairs of the Secret, for a server of this name; null for those that are missing or no good; and the certificates before. */
function readPairs(name: string, data: SecretData) {
  const { certificate, key, nextCertificate, nextKey, previous } = secretFields;
  const read = (one: string, other: string) => readPair(name, data[one] ?? '', data[other] ?? '');
  // A missing field is no certificate.
  const before = listNewest(name, data[previous] ?? '');
  return { current: read(certificate, key), next: read(nextCertificate, nextKey), before };
}

interface CertificateView {
  readonly name: string;
  /** Empty where there is no Secret. */
  readonly data: SecretData;
  /** What API servers trust, as PEM; null where the webhook is not configured. */
  readonly trusted: string | null;
  /** For how long that has been as it is now, as far as this process knows. */
  readonly trustedForMs: number;
  /** The certificate with which this process serves; null for none. */
  readonly served: string | null;
  /** Since 1970. */
  readonly nowMs: number;
}

/** What is to be done. */
export type CertificateStep =
  /** Make a pair, and keep it as the next one. `previous` is what has to stay trusted, as PEM; empty if nothing has. */
  | { readonly step: 'make'; readonly previous: string }
  /** Have the API servers trust these, as PEM. */
  | { readonly step: 'trust'; readonly trusted: string }
  | { readonly step: 'serve'; readonly pair: ReadPair; readonly previous: string }
  /** Nothing, for so long or until something changes. */
  | { readonly step: 'wait'; readonly ms: number };

/** A third of the time for which a certificate is valid from now on. By a date that went back, it is as old. */
const renewMs = 120 * 86_400_000;

/** Far longer than an API server takes to receive the configuration. */
const settleMs = 30_000;

/** How often the date is checked. */
const restMs = 60_000;

/** Decides the next step. Pure. */
export function planCertificates(view: CertificateView): CertificateStep {
  const { name, data, trusted, trustedForMs, nowMs } = view;
  const { current, next, before } = readPairs(name, data);
  if (next === null && isToReplace(current, nowMs))
    return { step: 'make', previous: current === null ? listKept(view) : '' };
  const pairs = [current, next].filter((pair) => pair !== null);
  const wanted = joinCertificates([...pairs.map(({ certificate }) => certificate), ...before]);
  if (trusted !== null && trusted !== wanted) return { step: 'trust', trusted: wanted };
  const previous = current?.certificate ?? joinCertificates(before);
  if (next === null) return { step: 'wait', ms: restMs };
  if (trustedForMs < settleMs) return { step: 'wait', ms: settleMs - trustedForMs };
  return { step: 'serve', pair: next, previous };
}

/** So many are kept where a Secret is deleted again and again. */
const keptCount = 4;

/** Without a Secret, each process serves what it has. This one knows its own; one that started meanwhile has one of the last that were trusted. */
function listKept({ name, trusted, served }: CertificateView): string {
  const known = [...(served === null ? [] : [served]), ...listNewest(name, trusted ?? '')];
  return joinCertificates([...new Set(known)].slice(0, keptCount));
}

function isToReplace(current: ReadPair | null, nowMs: number): boolean {
  return current === null || Math.abs(nowMs - current.madeMs) > renewMs;
}

/** Each once. Which of them is served makes no difference to who trusts them. */
function joinCertificates(certificates: readonly string[]): string {
  return [...new Set(certificates)].sort().join('');
}

/**
 * The certificate that the webhook serves with.
 *
 * Goal: the API server trusts this webhook, and nobody has to run a tool for certificates.
 * Tension: what an authority signs is trusted too, and hosts differ about the date.
 * Compromise: each certificate is signed by its own key, may sign no other, and is itself what the API server trusts. It is valid for a
 * year before it was made, as for a year after.
 */

/** A pair that belongs together. */
export interface ReadPair extends KeyPair {
  /** Since 1970. */
  readonly madeMs: number;
  readonly untilMs: number;
}

/** Far more than hosts differ about the date, and than no controller runs. */
const validMs = 365 * 86_400_000;

/** ecdsa-with-SHA256. Source: RFC 5758, 3.2. */
const signatureAlgorithm = '1.2.840.10045.4.3.2';

/** Makes a pair for a server of this name. `date` is now. */
export async function makePair(name: string, date: Date): Promise<KeyPair> {
  const keys = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
  const certificate = await signCertificate(name, date, keys);
  return { certificate, key: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** Reads a pair for a server of this name; null for what is none, or TLS refuses. Whether it is valid today is not checked. */
export function readPair(name: string, certificate: string, key: string): ReadPair | null {
  try {
    const read = new X509Certificate(certificate);
    const isOwn = read.checkHost(name) !== undefined && read.checkPrivateKey(createPrivateKey(key));
    return isOwn && canServeWith({ certificate, key }) ? { certificate, key, ...toDates(read) } : null;
  } catch {
    return null;
  }
}

/** The certificates of this name, or of any for null, in a text of many; the one that was made last comes first. */
function readNewest(name: string | null, text: string) {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?/g) ?? [];
  return blocks
    .flatMap((block) => readBlock(name, block) ?? [])
    .sort((one, other) => other.madeMs - one.madeMs);
}

function listNewest(name: string, text: string): string[] {
  return readNewest(name, text).map(({ block }) => block);
}

function readBlock(name: string | null, block: string) {
  try {
    const read = new X509Certificate(block);
    return name === null || read.checkHost(name) !== undefined ? { block, ...toDates(read) } : null;
  } catch {
    return null;
  }
}

function toDates({ validFromDate, validToDate }: X509Certificate): { madeMs: number; untilMs: number } {
  const [fromMs, untilMs] = [validFromDate.getTime(), validToDate.getTime()];
  return { madeMs: (fromMs + untilMs) / 2, untilMs };
}

/** Imported late: one controller makes a certificate, once in months. */
const load = () => Promise.all([import('@peculiar/asn1-schema'), import('@peculiar/asn1-x509')]);

async function signCertificate(name: string, date: Date, { publicKey, privateKey }: KeyPairKeyObjectResult) {
  const [{ AsnConvert }, x509] = await load();
  const serial = randomBytes(16);
  // A positive number of the whole length.
  serial.writeUInt8((serial.readUInt8() & 0x3f) | 0x40);
  const subject = `vipnat-webhook ${serial.toString('hex', 0, 4)}`;
  const value = new x509.AttributeValue({ utf8String: subject });
  const commonName = new x509.AttributeTypeAndValue({ type: '2.5.4.3', value });
  const ofName = new x509.Name([new x509.RelativeDistinguishedName([commonName])]);
  const algorithm = new x509.AlgorithmIdentifier({ algorithm: signatureAlgorithm });
  const toBeSigned = new x509.TBSCertificate({
    version: x509.Version.v3,
    serialNumber: Uint8Array.from(serial).buffer,
    signature: algorithm,
    ...{ issuer: ofName, subject: ofName },
    validity: new x509.Validity({
      notBefore: new Date(date.getTime() - validMs),
      notAfter: new Date(date.getTime() + validMs),
    }),
    subjectPublicKeyInfo: AsnConvert.parse(
      publicKey.export({ type: 'spki', format: 'der' }),
      x509.SubjectPublicKeyInfo,
    ),
    extensions: await toExtensions(name),
  });
  const bytes = Buffer.from(AsnConvert.serialize(toBeSigned));
  const certificate = new x509.Certificate({
    tbsCertificate: toBeSigned,
    signatureAlgorithm: algorithm,
    signatureValue: Uint8Array.from(sign('sha256', bytes, privateKey)).buffer,
  });
  return new X509Certificate(Buffer.from(AsnConvert.serialize(certificate))).toString();
}

/** For a server, and for nothing else. */
async function toExtensions(name: string) {
  const [{ AsnConvert, OctetString }, x509] = await load();
  const extend = (extnID: string, value: unknown) =>
    new x509.Extension({
      ...{ extnID, critical: extnID !== x509.id_ce_subjectAltName && extnID !== x509.id_ce_extKeyUsage },
      extnValue: new OctetString(AsnConvert.serialize(value)),
    });
  const names = [new x509.GeneralName({ dNSName: name })];
  return new x509.Extensions([
    extend(x509.id_ce_basicConstraints, new x509.BasicConstraints({ cA: false })),
    extend(x509.id_ce_keyUsage, new x509.KeyUsage(x509.KeyUsageFlags.digitalSignature)),
    extend(x509.id_ce_extKeyUsage, new x509.ExtendedKeyUsage([x509.id_kp_serverAuth])),
    extend(x509.id_ce_subjectAltName, new x509.SubjectAlternativeName(names)),
  ]);
}

/** Base64 as the API has bytes; what is none is read as far as it goes. */
const bytes = z.pipe(
  z.string(),
  z.transform((text: string) => Buffer.from(text, 'base64').toString()),
);

const metadata = z.object({ name, resourceVersion: objectVersion });

const secret = z.object({ metadata, data: z.nullish(z.record(z.string(), bytes)) });

const configuration = z.object({
  metadata,
  webhooks: z.nullish(
    z.array(z.object({ name: z.string(), clientConfig: z.object({ caBundle: z.nullish(bytes) }) })),
  ),
});

/** The webhook's Secret, its data decoded. */
type WebhookSecret = z.output<typeof secret>;

/** The webhook's configuration, what it trusts decoded. */
type WebhookConfiguration = z.output<typeof configuration>;

/** One object is asked for by its name, so that a role can be limited to it. */
const selector = selectName(webhookName);

const limits: AnswerLimits = { objects: 10, characters: 4_000_000, page: null };

/** The webhook's Secret in vipnat's namespace. */
export function toSecretResource(namespace: string): Resource<WebhookSecret> {
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  return { kind: 'Secret', path, selector, schema: secret, limits };
}

/** The webhook's configuration. */
export const webhookConfigurations: Resource<WebhookConfiguration> = {
  kind: 'MutatingWebhookConfiguration',
  path: '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
  ...{ selector, schema: configuration, limits },
};

/** What API servers trust, as PEM; null where the configuration lacks the webhook. */
function readTrusted(object: WebhookConfiguration | null): string | null {
  const entry = object?.webhooks?.find((one) => one.name === webhookEntry);
  return entry === undefined ? null : (entry.clientConfig.caBundle ?? '');
}

/** The dependencies of keeping, and its listeners. */
export interface KeeperOptions {
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly namespace: string;
  /** How long a write may take that begins now; 0 for one that may not begin, as in a process that does not lead. */
  readonly writeMs: () => number;
  /** With which pair to serve from now on. */
  readonly onPair: (pair: ReadPair) => void;
  readonly onStep: (step: CertificateStep['step'], pair: ReadPair | null) => void;
  /** It was not, and is tried again. Reported each time. */
  readonly onProblem: (detail: string) => void;
}

/** How long until a write is seen, and how often who does not lead checks whether it does. */
const pollMs = 1000;

/** So long it waits at most after a write that failed, or that somebody undid. */
const maxWaitMs = 60_000;

/** A Secret that somebody deletes again and again makes no more certificates than that. */
const makeMs = 60_000;

/** Keeps the Secret and the configuration as they have to be, while this process leads; and says with which pair to serve, in each process. */
export class CertificateKeeper {
  readonly #options: KeeperOptions;
  readonly #name: string;
  readonly #steps: Rounds;
  #waitMs = 0;
  /** Undefined until it is known. */
  #secret: WebhookSecret | null | undefined;
  #configuration: WebhookConfiguration | null = null;
  /** What API servers trust, and since when as it is now. Null until it is known. */
  #trusted: { readonly text: string | null; readonly atMs: number } | null = null;
  #madeAt = -Infinity;
  #served: ReadPair | null = null;
  /** Writes in a row that were not taken, or only put back what another had replaced. */
  #futile = 0;
  /** What API servers were last configured to trust. */
  #reported: string | null = null;
  #restUntil = -Infinity;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#name = toServerName(options.namespace);
    this.#steps = new Rounds(options.clock, this.#advance.bind(this), () => this.#waitMs);
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#steps.plan();
  }

  /** Ends when a write in progress has. */
  async stop(): Promise<void> {
    await this.#steps.stop();
  }

  /** The Secret as it is now; null for none. */
  setSecret(secret: WebhookSecret | null): void {
    this.#secret = secret;
    const { current, next } = readPairs(this.#name, secret?.data ?? {});
    // Without a pair to serve, what was served so far is still trusted.
    const pair = current ?? this.#served ?? next;
    if (pair !== null && pair.certificate !== this.#served?.certificate) this.#options.onPair(pair);
    this.#served = pair;
    this.#steps.hasten(0);
  }

  /** The configuration as it is now; null for none. */
  setConfiguration(configuration: WebhookConfiguration | null): void {
    this.#configuration = configuration;
    const text = readTrusted(configuration);
    if (this.#trusted?.text !== text) this.#trusted = { text, atMs: this.#options.clock.now() };
    this.#steps.hasten(0);
  }

  /** Whether API servers trust what this process serves with; null before that is known. */
  get isTrusted(): boolean | null {
    if (this.#served === null || this.#trusted === null) return null;
    return this.#trusted.text?.includes(this.#served.certificate) ?? false;
  }

  async #advance(): Promise<void> {
    this.#waitMs = await this.#takeStep();
  }

  /** Answers how long to wait. Who is woken by each change does not write at each: another may write as often. */
  async #takeStep(): Promise<number> {
    const pauseMs = this.#restUntil - this.#options.clock.now();
    if (pauseMs > 0) return pauseMs;
    const step = this.#options.writeMs() === 0 ? null : this.#plan();
    if (step === null) return pollMs;
    if (step.step === 'wait') return step.ms;
    const restMs = this.#madeAt + makeMs - this.#options.clock.now();
    return step.step === 'make' && restMs > 0 ? restMs : await this.#write(step);
  }

  /** Null before everything is known. */
  #plan(): CertificateStep | null {
    const { clock } = this.#options;
    if (this.#secret === undefined || this.#trusted === null) return null;
    const { text, atMs } = this.#trusted;
    return planCertificates({
      ...{ name: this.#name, data: this.#secret?.data ?? {} },
      ...{ trusted: text, trustedForMs: clock.now() - atMs, nowMs: clock.date().getTime() },
      served: this.#served?.certificate ?? null,
    });
  }

  async #write(step: Exclude<CertificateStep, { step: 'wait' }>): Promise<number> {
    const { client, writeMs, onStep, onProblem } = this.#options;
    const [write, pair] = await this.#toWrite(step);
    const limitMs = writeMs();
    if (limitMs === 0 || this.#steps.isStopped) return pollMs;
    const { outcome, detail } = await client.write(write, limitMs);
    if (outcome === 'taken') onStep(step.step, pair);
    // Another was first: what it has written arrives here soon.
    const isDone = ['taken', 'conflict', 'exists', 'gone'].includes(outcome);
    if (!isDone) onProblem(detail);
    return this.#rest(step, isDone);
  }

  /** Answers how long to wait after a write. */
  #rest(step: CertificateStep, isDone: boolean): number {
    const { clock } = this.#options;
    const reported = step.step === 'trust' ? step.trusted : null;
    const isAgain =
      reported !== null && reported === this.#reported && clock.now() - this.#restUntil < maxWaitMs;
    this.#futile = isDone && !isAgain ? 0 : this.#futile + 1;
    this.#reported = reported;
    const restMs = backOff(this.#futile, pollMs, maxWaitMs);
    this.#restUntil = clock.now() + restMs;
    return restMs;
  }

  async #toWrite(
    step: Exclude<CertificateStep, { step: 'wait' }>,
  ): Promise<[write: ObjectWrite, pair: ReadPair | null]> {
    const { certificate, key, nextCertificate, nextKey, previous } = secretFields;
    if (step.step === 'trust') return [this.#toTrust(step.trusted), null];
    if (step.step === 'serve') {
      const data = { [certificate]: step.pair.certificate, [key]: step.pair.key, [previous]: step.previous };
      return [this.#toSecret({ ...data, [nextCertificate]: '', [nextKey]: '' }), step.pair];
    }
    this.#madeAt = this.#options.clock.now();
    const made = await makePair(this.#name, this.#options.clock.date());
    const data = { [nextCertificate]: made.certificate, [nextKey]: made.key, [previous]: step.previous };
    return [this.#toSecret(data), readPair(this.#name, made.certificate, made.key)];
  }

  /** Empty fields go. */
  #toSecret(fields: Readonly<Record<string, string>>): ObjectWrite {
    const { path } = toSecretResource(this.#options.namespace);
    const toBytes = (text: string) => Buffer.from(text).toString('base64');
    const data = Object.fromEntries(
      Object.entries(fields).map(([field, text]) => [field, text === '' ? null : toBytes(text)]),
    );
    if (this.#secret == null) {
      const title = `creating Secret ${webhookName}`;
      const metadata = { name: webhookName, labels: { 'app.kubernetes.io/name': webhookName } };
      const present = Object.fromEntries(Object.entries(data).filter(([, text]) => text !== null));
      const body = { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', data: present };
      return { title, method: 'POST', path, body };
    }
    const { resourceVersion } = this.#secret.metadata;
    const title = `writing Secret ${webhookName}`;
    const body = { metadata: { resourceVersion }, data };
    return { title, method: 'PATCH', path: `${path}/${webhookName}`, body };
  }

  /** The list of webhooks is merged by their names, so everything else of the configuration stays its owner's. */
  #toTrust(trusted: string): ObjectWrite {
    const clientConfig = { caBundle: Buffer.from(trusted).toString('base64') };
    const { resourceVersion } = this.#configuration?.metadata ?? {};
    return {
      title: `writing MutatingWebhookConfiguration ${webhookName}`,
      ...{ method: 'PATCH', isStrategic: true, path: `${webhookConfigurations.path}/${webhookName}` },
      body: { metadata: { resourceVersion }, webhooks: [{ name: webhookEntry, clientConfig }] },
    };
  }
}

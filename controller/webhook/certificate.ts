/**
 * The certificate that the webhook serves with.
 *
 * Goal: the API server trusts this webhook, and nobody has to run a tool for certificates.
 * Tension: what an authority signs is trusted too, and hosts differ about the date.
 * Compromise: each certificate is signed by its own key, may sign no other, and is itself what the API server trusts. It is valid for a
 * year before it was made, as for a year after.
 */
import {
  createPrivateKey,
  generateKeyPair,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto';
import { promisify } from 'node:util';
import { canServeWith, type KeyPair } from '../../lib/http/post-server.ts';

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
  const { publicKey, privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
  const certificate = await signCertificate(name, date, { publicKey, privateKey });
  return { certificate, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** Reads a pair for a server of this name; null for what is none, or TLS refuses. Whether it is valid today is not looked at. */
export function readPair(name: string, certificate: string, key: string): ReadPair | null {
  try {
    const read = new X509Certificate(certificate);
    const isOurs = read.checkHost(name) !== undefined && read.checkPrivateKey(createPrivateKey(key));
    return isOurs && canServeWith({ certificate, key }) ? { certificate, key, ...toDates(read) } : null;
  } catch {
    return null;
  }
}

/** The certificate of this name, or of any, in a text of many that was made last; null for none. */
export function findNewest(name: string | null, text: string): string | null {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?/g) ?? [];
  const found = blocks
    .flatMap((block) => {
      const madeMs = readMade(name, block);
      return madeMs === null ? [] : [{ block, madeMs }];
    })
    .sort((one, other) => other.madeMs - one.madeMs);
  return found[0]?.block ?? null;
}

/** When a certificate ends, since 1970; null for what is none. */
export function readEnd(certificate: string): number | null {
  try {
    return toDates(new X509Certificate(certificate)).untilMs;
  } catch {
    return null;
  }
}

function readMade(name: string | null, certificate: string): number | null {
  try {
    const read = new X509Certificate(certificate);
    const isOurs = name === null || read.checkHost(name) !== undefined;
    return isOurs ? toDates(read).madeMs : null;
  } catch {
    return null;
  }
}

function toDates({ validFromDate, validToDate }: X509Certificate): { madeMs: number; untilMs: number } {
  const [fromMs, untilMs] = [validFromDate.getTime(), validToDate.getTime()];
  return { madeMs: (fromMs + untilMs) / 2, untilMs };
}

interface Keys {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

/** Imported late: one controller makes a certificate, once in months. */
async function signCertificate(name: string, date: Date, { publicKey, privateKey }: Keys): Promise<string> {
  const [{ AsnConvert }, x509] = await Promise.all([
    import('@peculiar/asn1-schema'),
    import('@peculiar/asn1-x509'),
  ]);
  const serial = randomBytes(16);
  // A positive number of the whole length.
  serial.writeUInt8((serial.readUInt8() & 0x3f) | 0x40);
  const subject = `vipnat-webhook ${serial.toString('hex', 0, 4)}`;
  const ofName = new x509.RelativeDistinguishedName([
    new x509.AttributeTypeAndValue({
      type: '2.5.4.3',
      value: new x509.AttributeValue({ utf8String: subject }),
    }),
  ]);
  const algorithm = new x509.AlgorithmIdentifier({ algorithm: signatureAlgorithm });
  const toBeSigned = new x509.TBSCertificate({
    version: x509.Version.v3,
    serialNumber: toArrayBuffer(serial),
    signature: algorithm,
    issuer: new x509.Name([ofName]),
    subject: new x509.Name([ofName]),
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
    signatureValue: toArrayBuffer(sign('sha256', bytes, privateKey)),
  });
  return toPem(Buffer.from(AsnConvert.serialize(certificate)));
}

/** For a server, and for nothing else. */
async function toExtensions(name: string) {
  const [{ AsnConvert, OctetString }, x509] = await Promise.all([
    import('@peculiar/asn1-schema'),
    import('@peculiar/asn1-x509'),
  ]);
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

function toArrayBuffer(bytes: Buffer): ArrayBuffer {
  return Uint8Array.from(bytes).buffer;
}

function toPem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

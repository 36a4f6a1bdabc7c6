import { createHash } from 'node:crypto';

/** RFC 4648, the alphabet of Go's base32.StdEncoding. */
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const bitsPerCharacter = 5;

/** The first characters of the base32 text of a SHA-256: how kube-proxy makes names short. At most 51 are asked for. */
export function hashToBase32(text: string, length: number): string {
  const digest = createHash('sha256').update(text).digest();
  const bits = Array.from(digest, (byte) => byte.toString(2).padStart(8, '0')).join('');
  return Array.from({ length }, (_, index) => {
    const start = index * bitsPerCharacter;
    return alphabet.charAt(Number.parseInt(bits.slice(start, start + bitsPerCharacter), 2));
  }).join('');
}

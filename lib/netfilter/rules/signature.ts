import { createHash } from 'node:crypto';

/** What the comment of every rule of ours begins with. */
export const signaturePrefix = 'vipnat:';

/**
 * The comments by which the rules of one chain are known as ours, in their order: `vipnat:` and 16 characters of
 * base64url (96 bits) of a hash chained over the chain's name and the rules up to this one. The same rule has
 * another signature in another place.
 */
export function signChain(chain: string, rules: readonly string[]): string[] {
  let link = hash(chain);
  return rules.map((rule) => {
    link = hash(`${link}\n${rule}`);
    return signaturePrefix + link.slice(0, 16);
  });
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

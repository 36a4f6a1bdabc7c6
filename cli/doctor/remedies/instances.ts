import { parseAddress } from '../../../lib/address/address.ts';

/** The names of the vrrp_instances whose block has an address, see keepalived.conf(5). Pure and total. */
export function listInstanceNames(text: string, address: string): string[] {
  const bare = text.replaceAll(/[#!].*$/gm, '');
  return [...bare.matchAll(/\bvrrp_instance\s+([^\s{}]+)\s*\{/g)].flatMap(
    ({ index, 0: head, 1: name = '' }) => {
      const words = takeBlock(bare.slice(index + head.length)).split(/[\s{}]+/);
      const isIn = words.some((word) => parseAddress(word.replace(/\/\d+$/, ''))?.text === address);
      return isIn ? [name] : [];
    },
  );
}

/** Up to the brace that closes it. */
function takeBlock(text: string): string {
  let depth = 1;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '{') depth += 1;
    if (text[at] === '}') depth -= 1;
    if (depth === 0) return text.slice(0, at);
  }
  return text;
}

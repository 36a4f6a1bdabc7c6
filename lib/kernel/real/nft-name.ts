/**
 * Whether nft's own language can name an object so. Whoever speaks netlink can give it any other name too, and nft makes one
 * text of its arguments: such a name would be read as a command. Source: nftables 1.1, src/scanner.l, `string`.
 */
export function isNftName(name: string): boolean {
  return /^[A-Za-z_][\w/.-]{0,255}$/.test(name);
}

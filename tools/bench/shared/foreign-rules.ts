const rulesPerChain = 50;

/** Rules of somebody else's in table nat, as iptables-restore takes them; a multiple of 50. */
export function renderIptables(count: number): string {
  const chains = listChains(count);
  const rules = chains.flatMap((chain, index) =>
    listMatches(index).map(
      ([address, port]) => `-A ${chain} -d ${address}/32 -p tcp -m tcp --dport ${port} -j RETURN`,
    ),
  );
  return ['*nat', ...chains.map((chain) => `:${chain} - [0:0]`), ...rules, 'COMMIT', ''].join('\n');
}

/** The same as a table of nftables. */
export function renderNft(count: number): string {
  const blocks = listChains(count).map((chain, index) => {
    const rules = listMatches(index).map(([address, port]) => `ip daddr ${address} tcp dport ${port} return`);
    return `chain ${chain} {\n${rules.join('\n')}\n}`;
  });
  return `table ip foreign {\n${blocks.join('\n')}\n}\n`;
}

function listChains(count: number): string[] {
  return Array.from({ length: count / rulesPerChain }, (_, index) => `FOREIGN-${index}`);
}

function listMatches(chain: number): [string, number][] {
  return Array.from({ length: rulesPerChain }, (_, rule) => [
    `172.${16 + (chain >> 8)}.${chain & 255}.${rule}`,
    rule + 1,
  ]);
}

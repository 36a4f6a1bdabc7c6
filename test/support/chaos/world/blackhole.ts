import { apiserverPort } from '../../network/layout.ts';

/** The table of nftables by which an apiserver is blackholed: the world's own, and nobody's that is judged. */
export const blackholeTable = 'inet blackhole';

/** Drops what comes for a host's apiserver: from everybody, or from these addresses of IPv4. */
export function renderBlackhole(from: readonly string[] = []): string {
  const sources = from.length === 0 ? '' : `ip saddr { ${from.join(', ')} } `;
  return `nft -f - <<'END'
table ${blackholeTable}
delete table ${blackholeTable}
table ${blackholeTable} {
  chain input { type filter hook input priority -300; ${sources}tcp dport ${apiserverPort} drop; }
}
END`;
}

/** Takes it away, if it is there. */
export const openBlackhole = `nft delete table ${blackholeTable} 2>/dev/null || true`;

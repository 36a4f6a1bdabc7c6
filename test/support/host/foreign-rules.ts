import { dumpScript } from '../foreign/dump.ts';
import type { Cluster } from '../network/cluster.ts';

/**
 * Every rule, chain and policy of a machine: all tables of both backends and families, and all of nft's ruleset.
 * Without what changes by itself: packet counters, and the time and handles in the tools' comments.
 */
export async function dumpRules(cluster: Cluster, machine: string): Promise<string> {
  const text = await cluster.shell(machine, dumpScript);
  return text.replaceAll(/^#.*\n/gm, '').replaceAll(/\[\d+:\d+\]/g, '[0:0]');
}

/** A dump without our chains, our rules in them, and our hooks in others. */
export function withoutOwnRules(dump: string): string {
  return (
    dump
      // nft's blocks, with the empty line before each that has a chain before it.
      .replaceAll(/\n*\tchain VIPNAT[^}]*\}\n/g, '\n')
      .replaceAll(/^.*\bVIPNAT.*\n/gm, '')
      // A block of ours may have been the first or the last one of its table.
      .replaceAll(/\n+/g, '\n')
  );
}

/**
 * What other programs have on a busy host, in every table: Docker's and a firewall's chains, marks and drops, rules of
 * both backends, and a table that only nft knows.
 */
export const strangersScript = `
iptables-nft-restore --noflush <<'END'
*raw
:STRANGER-RAW - [0:0]
-A PREROUTING -d 198.51.100.7/32 -p udp -m udp --dport 53 -j CT --notrack
-A PREROUTING -j STRANGER-RAW
COMMIT
*mangle
:KUBE-IPTABLES-HINT - [0:0]
-A PREROUTING -p tcp -m tcp --dport 8080 -j MARK --set-xmark 0x7/0xff
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
COMMIT
*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -m comment --comment "docker's hook" -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A DOCKER -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80
COMMIT
*filter
:DOCKER-USER - [0:0]
-A INPUT -s 203.0.113.0/24 -m comment --comment "a \\"quoted\\" word" -j DROP
-A INPUT -s 203.0.113.9/32 -m limit --limit 5/min -j LOG --log-prefix "vipnat? no: "
-A FORWARD -j DOCKER-USER
-A DOCKER-USER -j RETURN
COMMIT
END
ip6tables-nft-restore --noflush <<'END'
*nat
:STRANGER - [0:0]
-A PREROUTING -d 2001:db8::7/128 -p tcp -m tcp --dport 80 -j STRANGER
-A STRANGER -p tcp -j DNAT --to-destination [2001:db8::8]:8080
COMMIT
*filter
-A INPUT -s 2001:db8::/32 -j DROP
COMMIT
END
iptables-legacy-restore --noflush <<'END'
*nat
-A PREROUTING -d 198.51.100.9/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 198.51.100.10:8080
COMMIT
*filter
:OLD-FIREWALL - [0:0]
-A INPUT -j OLD-FIREWALL
-A OLD-FIREWALL -s 192.0.2.0/24 -j DROP
COMMIT
END
nft -f - <<'END'
table inet stranger {
  set blocked { type ipv4_addr; elements = { 192.0.2.1, 192.0.2.2 }; }
  chain input { type filter hook input priority 10; policy accept; ip saddr @blocked drop; }
}
END
`;

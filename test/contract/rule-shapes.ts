import type { Family } from '../../lib/net.ts';
import type { IptablesDialect } from '../../lib/kernel/port.ts';

/** A script with every shape of rule that vipnat writes, and what the save tool prints after it. */
interface RuleShapes {
  readonly script: string;
  readonly printed: string;
}

/** The shapes with one family's addresses. Legacy tables are printed newest first, and nat is written last. */
export function shapes(family: Family, dialect: IptablesDialect): RuleShapes {
  const isIpv6 = family === 'ipv6';
  const vip = isIpv6 ? 'fd00::50' : '10.0.0.50';
  const prefix = isIpv6 ? 128 : 32;
  const [first, second, third] = [1, 2, 3].map((node) =>
    isIpv6 ? `[fd00::${node}]:6443` : `10.0.0.${node}:6443`,
  );
  const translated = `-m conntrack --ctstate DNAT --ctorigdst ${vip} --ctorigdstport 6443`;
  const opening = '-m tcp --dport 6443 --tcp-flags FIN,SYN,RST,ACK SYN';
  const dispatch = `-p tcp -m comment --comment "vipnat:abc" ${opening} -j VIPNAT-1f2e3d4c5b`;
  const choice = (chance: string, backend: string | undefined) =>
    `-p tcp -m comment --comment "vipnat:abc" ${chance}-m tcp -j DNAT --to-destination ${backend ?? ''}`;
  const statistic = (chance: string) => `-m statistic --mode random --probability ${chance} `;
  const apiserver = isIpv6 ? 'fd00::1' : '10.0.0.1';
  const untranslated =
    '! -i lo -p tcp -m comment --comment "vipnat:x" -m tcp --sport 6443 -m conntrack --ctstate INVALID -j DROP';
  const filter = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:VIPNAT-FORWARD - [0:0]
:VIPNAT-INPUT - [0:0]
-A INPUT -m comment --comment "vipnat:abc" -j VIPNAT-INPUT
-A FORWARD -m comment --comment "vipnat:abc" -j VIPNAT-FORWARD
-A VIPNAT-FORWARD -p tcp -m comment --comment "vipnat:x" ${translated} -j ACCEPT
-A VIPNAT-INPUT -s ${apiserver}/${prefix} ${untranslated}
COMMIT
`;
  const nat = `*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:VIPNAT - [0:0]
:VIPNAT-1f2e3d4c5b - [0:0]
:VIPNAT-EMPTY - [0:0]
:VIPNAT-POSTROUTING - [0:0]
-A PREROUTING -m comment --comment "vipnat:abc" -j VIPNAT
-A VIPNAT -d ${vip}/${prefix} ${dispatch}
-A VIPNAT -d ${vip}/${prefix} ${dispatch}
-A VIPNAT-1f2e3d4c5b ${choice(statistic('0.33333333349'), first)}
-A VIPNAT-1f2e3d4c5b ${choice(statistic('0.50000000000'), second)}
-A VIPNAT-1f2e3d4c5b ${choice('', third)}
-A VIPNAT-1f2e3d4c5b -m comment --comment "vipnat:x" -j VIPNAT-EMPTY
-A VIPNAT-1f2e3d4c5b -m comment --comment plain
-A VIPNAT-1f2e3d4c5b -m comment --comment "it\\'s \\"quoted\\" \\\\"
-A VIPNAT-POSTROUTING -p tcp -m comment --comment "vipnat:x" ${translated} -j MASQUERADE --random-fully
COMMIT
`;
  return {
    script: `*filter
:VIPNAT-FORWARD - [0:0]
:VIPNAT-INPUT - [0:0]
-I INPUT -m comment --comment "vipnat:abc" -j VIPNAT-INPUT
-I FORWARD -m comment --comment "vipnat:abc" -j VIPNAT-FORWARD
-A VIPNAT-FORWARD -p tcp -m comment --comment "vipnat:x" ${translated} -j ACCEPT
-A VIPNAT-INPUT -s ${apiserver} ${untranslated}
COMMIT
*nat
:VIPNAT - [0:0]
:VIPNAT-1f2e3d4c5b - [0:0]
:VIPNAT-POSTROUTING - [0:0]
:VIPNAT-EMPTY - [0:0]
-I PREROUTING -m comment --comment "vipnat:abc" -j VIPNAT
-A VIPNAT -d ${vip}/${prefix} ${dispatch}
-A VIPNAT -d ${vip} ${dispatch}
-A VIPNAT-1f2e3d4c5b ${choice(statistic('0.3333333333'), first)}
-A VIPNAT-1f2e3d4c5b ${choice(statistic('0.5000000000'), second)}
-A VIPNAT-1f2e3d4c5b ${choice('', third)}
-A VIPNAT-1f2e3d4c5b -m comment --comment "vipnat:x" -j VIPNAT-EMPTY
-A VIPNAT-1f2e3d4c5b -m comment --comment plain
-A VIPNAT-1f2e3d4c5b -m comment --comment "it's \\"quoted\\" \\\\"
-A VIPNAT-POSTROUTING -p tcp -m comment --comment "vipnat:x" ${translated} -j MASQUERADE --random-fully
COMMIT
`,
    printed: dialect === 'legacy' ? nat + filter : filter + nat,
  };
}

/** What another program's rules in the table nat may look like. */
export const foreignRules = `*nat
:DOCKER - [0:0]
-A PREROUTING -p udp -j RETURN
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -i docker0 -j RETURN
COMMIT
`;

import { type Ruleset } from '../../../lib/netfilter/iptables/ruleset.ts';
import { parseRule, splitRule } from '../../../lib/netfilter/iptables/rule.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';

/** Has the kubelet start this node's kube-proxy anew. */
export const restartProxy =
  'kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName="$(hostname)"';

/**
 * Chains that kube-proxy makes in iptables mode and nobody else. KUBE-FIREWALL and the canary are the kubelet's, and network
 * policies are in KUBE- chains too. Source: pkg/proxy/iptables/proxier.go of Kubernetes 1.19 to 1.36.
 */
const proxyChain =
  /^KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|FORWARD|PROXY-FIREWALL|PROXY-CANARY|(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z0-9]{16})$/;

/** The same for sed. */
const proxyChainPattern =
  'KUBE-\\(SERVICES\\|EXTERNAL-SERVICES\\|NODEPORTS\\|POSTROUTING\\|MARK-MASQ\\|FORWARD\\|PROXY-FIREWALL\\|PROXY-CANARY\\|\\(SVC\\|SVL\\|SEP\\|EXT\\|FW\\|XLB\\)-[A-Z0-9]\\{16\\}\\)';

/**
 * Takes kube-proxy's rules out of a backend, one rule and one chain at a time: no table is written whole, as what a
 * save prints of rules that nft made can be less than they are (iptables-nft 1.8.9 prints `ip saddr @s drop` as `-j DROP`).
 */
export function removeRules({ tables }: Ruleset, tool: string): string[] {
  const touched = [...tables].filter(([, chains]) =>
    [...chains.keys()].some((chain) => proxyChain.test(chain)),
  );
  return [
    `${tool}-save > /root/${tool}.old`,
    ...touched.flatMap(([table, chains]) => [
      ...listJumps(chains).map(([chain, text]) =>
        quoteWords([tool, '-t', table, '-D', chain, ...splitRule(text)]),
      ),
      [
        `for step in -F -X; do ${tool} -t ${table} -S`,
        `sed -n "s/^-N \\(${proxyChainPattern}\\)\$/$step \\1/p"`,
        `xargs -r -L1 ${tool} -t ${table}; done`,
      ].join(' | '),
    ]),
    '# kube-proxy writes again what it still uses there:',
    restartProxy,
  ];
}

/** The rules of others' chains that lead there. */
function listJumps(chains: ReadonlyMap<string, readonly string[]>): [string, string][] {
  return [...chains]
    .filter(([chain]) => !proxyChain.test(chain))
    .flatMap(([chain, rules]) =>
      rules
        .filter((text) => proxyChain.test(parseRule(text).target ?? ''))
        .map((text): [string, string] => [chain, text]),
    );
}

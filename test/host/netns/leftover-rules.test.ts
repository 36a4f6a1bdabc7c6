import { Namespaces } from '../../support/network/namespaces.ts';
import { beforeAll, afterAll, test, expect } from '@jest/globals';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { removeRules } from '../../../cli/doctor/remedies.ts';

let namespaces: Namespaces;
let namespace = '';

beforeAll(async () => {
  namespaces = new Namespaces();
  namespace = await namespaces.create('leftover');
});

afterAll(() => (namespaces as Namespaces | undefined)?.close());

const service = 'KUBE-SVC-NPX46M4PTMTKRN6Y';
const endpoint = 'KUBE-SEP-AAAAAAAAAAAAAAAA';

/** What kube-proxy leaves in the backend that it does not use any more, and who else is there. */
const seed = (tool: string) => `${tool}-restore <<'END'
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:${service} - [0:0]
:${endpoint} - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT -m comment --comment "it's $(touch /tmp/x) of \\"quotes\\"" -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j ${service}
-A ${service} -j ${endpoint}
-A ${endpoint} -p tcp -j DNAT --to-destination 10.77.0.11:6443
-A DOCKER -j RETURN
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-NWPLCY-AAAAAAAAAAAAAAAA - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -j KUBE-NWPLCY-AAAAAAAAAAAAAAAA
-A INPUT -j KUBE-FIREWALL
-A KUBE-FORWARD -j ACCEPT
-A KUBE-NWPLCY-AAAAAAAAAAAAAAAA -s 10.244.9.0/24 -j DROP
COMMIT
END`;

/** What iptables-nft 1.8.9 cannot print whole. */
const native = `nft add set ip filter s '{ type ipv4_addr; }'
nft insert rule ip filter FORWARD ip saddr @s drop
nft insert rule ip nat PREROUTING ip saddr @s2 accept 2>/dev/null || true`;

test.each(['legacy', 'nft'] as const)(
  'what kube-proxy left in %s goes, and nothing else',
  async (dialect) => {
    const tool = `iptables-${dialect}`;
    const show = (what: string) => namespaces.shell(namespace, what);
    await show(`${seed(tool)}\n${dialect === 'nft' ? native : ''}`);
    const before = await show(`${tool}-save`);
    const list = dialect === 'nft' ? 'nft list ruleset' : `${tool}-save`;
    const whole = await show(list);
    const ruleset = parseSave({ family: 'ipv4', dialect, text: before });
    const remedy = removeRules(ruleset, tool).filter((line) => !line.startsWith('kubectl'));
    await show(
      `mkdir -p /tmp/leftover.$$; cd /tmp/leftover.$$\n${remedy.join('\n').replaceAll('/root/', './')}\ncd /; rm -r /tmp/leftover.$$`,
    );
    const kept = (text: string) =>
      text
        .split('\n')
        .map((line) => line.replaceAll(/\[?\b\d+:\d+\]?|packets \d+ bytes \d+/g, '').trim())
        .filter((line) => !line.startsWith('#'))
        .filter((line) => !/KUBE-(?:SERVICES|POSTROUTING|FORWARD|SVC|SEP)/.test(line));
    const after = await show(list);
    expect(after).not.toMatch(/KUBE-(?:SERVICES|POSTROUTING|FORWARD|SVC|SEP)/);
    expect(after).toContain('KUBE-NWPLCY-AAAAAAAAAAAAAAAA');
    if (dialect === 'nft') expect(after).toMatch(/ip saddr @s .*drop/);
    else expect(kept(after)).toEqual(kept(whole).filter((line) => !/10\.96\.0\.1|10\.77\.0\.11/.test(line)));
  },
);

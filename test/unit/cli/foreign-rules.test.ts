import type { Assessment } from '../../../agent/decide/decision.ts';
import { beforeAll, test, expect } from '@jest/globals';
import { lookOnce, restoreCaptures } from '../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import type { ForeignRules } from '../../../lib/kernel/iptables.ts';
import type { ForwardChain } from '../../../lib/kernel/port.ts';
import {
  findUntrackedPackets,
  findForeignDrops,
  findDropRules,
  findInputDrops,
} from '../../../cli/foreign-rules.ts';

const chains: ForwardChain[] = [
  { table: 'inet firewall', name: 'forward', isDropping: true },
  { table: 'inet polite', name: 'forward', isDropping: false },
  { table: 'ip filter', name: 'FORWARD', isDropping: true },
  { table: 'ip6 filter', name: 'FORWARD', isDropping: true },
  { table: 'ip filter', name: 'forward', isDropping: true },
  { table: 'ip6 filter', name: 'forward', isDropping: true },
  { table: 'ip vipnat', name: 'forward', isDropping: true },
];

test.each([
  // iptables has a chain of another name in that table.
  ["of the VIP's family that drop, and are not ours to write to", true, ['ip filter forward']],
  ['of iptables too, where none is installed', false, ['ip filter FORWARD', 'ip filter forward']],
])('chains are named: %s', async (_, hasIptables, names) => {
  const kernel = restoreCaptures(['nft-kube-proxy.three-endpoints.json']);
  kernel.hasIptables = hasIptables;
  const found = findForeignDrops(chains, await lookOnce(kernel, ordinaryConfig));
  expect(found.map(({ table, name }) => `${table} ${name}`)).toEqual(['inet firewall forward', ...names]);
});

test('what is not balanced is not dropped on its way', async () => {
  const kernel = restoreCaptures(['nft-kube-proxy.no-endpoints.json']);
  expect(findForeignDrops(chains, await lookOnce(kernel, ordinaryConfig))).toEqual([]);
});

/** The rules that are found on a host whose VIP 10.0.0.50:6443 is balanced over 10.77.0.11 to 13. */
async function findWith(...rules: readonly string[]): Promise<string[]> {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  kernel.run('ipv4', 'nft', `*mangle\n${rules.map((rule) => `-A ${rule}\n`).join('')}COMMIT\n`);
  return findDropRules(await lookOnce(kernel, ordinaryConfig)).map(({ place }) => place);
}

test.each([
  ['FORWARD', 'FORWARD -d 10.77.0.12/32 -p tcp -m tcp --dport 6443 -j DROP'],
  ['FORWARD', 'FORWARD -s 10.77.0.0/24 -p tcp -m tcp --sport 6443 -j DROP'],
  ['PREROUTING', 'PREROUTING -d 10.0.0.50/32 -j DROP'],
  ['POSTROUTING', 'POSTROUTING -p tcp -m multiport --dports 443,6443 -j DROP'],
  // Others, or those of some clients.
  [null, 'PREROUTING -s 192.0.2.0/24 -d 10.0.0.50/32 -j DROP'],
  [null, 'PREROUTING -m conntrack --ctstate INVALID -j DROP'],
  [null, 'FORWARD -d 10.0.0.50/32 -j DROP'],
  [null, 'FORWARD -d 10.77.0.12/32 -p udp -j DROP'],
  [null, 'FORWARD -d 10.77.0.12/32 -j MARK --set-xmark 0x1/0x1'],
  // Behind what may let connections pass.
  [null, 'PREROUTING -i eth0 -j ACCEPT; PREROUTING -j DROP'],
  [null, 'PREROUTING -m set --match-set friends src -j RETURN; PREROUTING -j DROP'],
  [
    'PREROUTING',
    'PREROUTING -p udp -j ACCEPT; PREROUTING -i eth0 -j MARK --set-xmark 0x1/0x1; PREROUTING -j DROP',
  ],
])('in %s of table mangle all connections are dropped: %s', async (chain, rules) => {
  expect(await findWith(...rules.split('; '))).toEqual(
    chain === null ? [] : [`mangle ${chain} of iptables-nft`],
  );
});

test.each([
  [1, ['INPUT -i eth0 -p tcp -m tcp --dport 6443 -j DROP']],
  [
    1,
    [
      'INPUT -j KUBE-FIREWALL',
      'INPUT -m state --state ESTABLISHED -j ACCEPT',
      'INPUT -j REJECT --reject-with tcp-reset',
    ],
  ],
  [0, ['INPUT -p tcp -m tcp --dport 6443 -j ACCEPT', 'INPUT -j DROP']],
  [1, [':INPUT DROP [0:0]', 'INPUT -p tcp -m tcp --dport 22 -j ACCEPT', 'INPUT ! -i lo -j ufw']],
  [0, [':INPUT DROP [0:0]', 'INPUT -j ufw', 'ufw -s 10.0.0.0/8 -p tcp -m tcp --dport 6443 -j ACCEPT']],
  [0, [':INPUT DROP [0:0]', 'INPUT -m set --match-set friends src -j ACCEPT']],
  [0, ['INPUT -i eth9 -j DROP', 'INPUT -s 192.0.2.0/24 -j DROP', 'INPUT -p tcp -m tcp --dport 22 -j DROP']],
  [0, ['INPUT -d 10.77.0.12/32 -j DROP']],
])("%s rules that keep connections from this host's own apiserver: %j", async (count, rules) => {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  kernel.run(
    'ipv4',
    'nft',
    `*filter\n:KUBE-FIREWALL - [0:0]\n:ufw - [0:0]\n-F INPUT\n${rules.map((rule) => `${rule.startsWith(':') ? '' : '-A '}${rule}\n`).join('')}COMMIT\n`,
  );
  const found = findDropRules(await lookOnce(kernel, ordinaryConfig));
  const remedy = 'iptables-nft -I INPUT -p tcp --dport 6443 -j ACCEPT';
  const one = { place: 'filter INPUT of iptables-nft', remedy };
  expect(found).toMatchObject(Array.from({ length: count }, () => one));
});

/** A table of nft, of chains with `; ` between their lines. */
const nft = (name: string, ...chains: readonly string[]): ForeignRules => ({
  ...{ kind: 'nftables', table: `inet ${name}` },
  text: `table inet ${name} {\nct helper ftp {\ntype "ftp" protocol 6\n}\n${chains.map((one) => `chain ${one.replaceAll(/; (?!policy)/g, '\n')}\n}\n`).join('')}}\n`,
});

/** As nft -n prints them: 1.0.6 and 1.1.3 alike, and earlier ones with words. */
const passing = 'ct state 0x2,0x4 accept; iif "lo" accept; meta l4proto { 1, 58 } accept; icmp type 8 accept';

test.each([
  ['policy drop', 'drop', 'ct state vmap { 0x1 : drop, 0x2 : accept, 0x4 : accept }; tcp dport 22 accept'],
  ['policy drop', 'drop', `${passing}; udp dport 53 accept; ip saddr 192.0.2.0/24 tcp dport 22 accept`],
  ['policy drop', 'drop', `${passing}; ip daddr 224.0.0.18 accept; ip6 saddr fd00::/8 accept; jump local`],
  ['tcp dport 6443 drop', 'accept', 'ct state { established, related } accept; tcp dport 6443 drop'],
  ['reject with icmpx 3', 'accept', `${passing}; ip saddr 192.0.2.1 drop; reject with icmpx 3`],
  [
    'counter packets 7 bytes 420 log prefix "accept " flags all drop',
    'accept',
    'ct state 0x2 accept; counter packets 7 bytes 420 log prefix "accept " flags all drop',
  ],
  [null, 'drop', `${passing}; tcp dport 6443 accept`],
  [null, 'drop', `${passing}; ip saddr { 10.0.0.0/8, 192.0.2.0/24 } tcp dport 6000-7000 accept`],
  [null, 'drop', `${passing}; ip saddr @masters accept`],
  [null, 'drop', 'meta l4proto . th dport { 6 . 22, 6 . 6443 } accept'],
  [null, 'drop', 'ip saddr . tcp dport { 10.0.0.1 . 6443 } accept'],
  [null, 'drop', 'meta l4proto . th dport vmap { 6 . 22 : accept, 6 . 6443 : accept }'],
  [null, 'drop', 'tcp dport . ct state { 6443 . 0x8 } accept'],
  [null, 'drop', 'ct original ip daddr 10.0.0.50 accept; ct reply ip daddr 192.0.2.1 accept'],
  [null, 'drop', 'meta l4proto 1-6 accept'],
  [null, 'drop', 'ct status 0x20 accept'],
  [null, 'drop', 'iifname vmap { "lo" : accept, "eth0" : jump local, "eth1" : accept }'],
  [null, 'drop', 'jump friends'],
  [null, 'drop', 'goto friends'],
  [null, 'drop', 'queue to 0'],
  [null, 'accept', 'tcp dport 22 drop; ip saddr 192.0.2.1 drop; iifname "eth9" drop; ct state 0x1 drop'],
  [null, 'accept', 'limit rate over 10/second drop; ip6 daddr ::/0 drop; ct mark 0x1 reject'],
  [null, 'accept', 'jump friends; tcp dport 6443 reject with tcp reset'],
])('nft: %s keeps connections from this host: policy %s, %s', async (rule, policy, rules) => {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  const table = nft(
    'fw',
    'friends {; ip saddr 10.0.0.0/8 tcp dport 6443 accept',
    'local {; tcp dport 22 accept',
    `in {; comment "of a person"; type filter hook input priority 0; policy ${policy};; ${rules}`,
    'out {; type filter hook output priority 0; policy drop;',
  );
  const find = async () => findInputDrops([table], await lookOnce(kernel, ordinaryConfig));
  // No apiserver is here.
  expect(await find()).toEqual([]);
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  const remedy = 'nft insert rule inet fw in tcp dport 6443 accept';
  expect(await find()).toEqual(
    rule === null ? [] : [{ place: 'chain in of table inet fw of nft', rule, remedy }],
  );
  // It is switched off.
  Object.assign(table, { text: table.text.replace('\n', '\nflags dormant\n') });
  expect(await find()).toEqual([]);
});

/** The same host, by a tool that hides ports. */
const hiding = ({ observation, ...rest }: Assessment): Assessment => {
  const rulesets = observation.rulesets.map((one) => ({ ...one, hidesPorts: true }));
  return { ...rest, observation: { ...observation, rulesets } };
};

/** A host whose VIP 10.0.0.50:6443 is balanced over 10.77.0.11 to 13. */
let assessment: Assessment;

beforeAll(async () => {
  assessment = await lookOnce(restoreCaptures(['iptables-nft-save.three-endpoints.txt']), ordinaryConfig);
});

/** Rules of iptables' table raw, with `; ` between them, and a chain of their own. */
const raw = (rules: string, chain = ''): ForeignRules => ({
  ...{ kind: 'iptables', family: 'ipv4', dialect: 'nft' },
  text: [
    '*raw',
    ':PREROUTING ACCEPT [0:0]',
    ':OUTPUT ACCEPT [0:0]',
    ...(chain === '' ? [] : [`:${chain} - [0:0]`]),
    ...rules.split('; ').map((rule) => `-A ${rule}`),
    'COMMIT\n',
  ].join('\n'),
});

/** The same of a table of nft. */
const early = (rules: string): ForeignRules =>
  nft('fast', `early {; type filter hook prerouting priority -300; policy accept;; ${rules}`);

const find = (rules: ForeignRules) => findUntrackedPackets([rules], assessment);
const toVip = 'packets to 10.0.0.50:6443';

const ofApiserver = 'packets from 10.77.0.12:6443';

test.each<[string, ForeignRules, string, boolean]>([
  ['the port', raw('PREROUTING -p tcp -m tcp --dport 6443 -j CT --notrack'), toVip, true],
  ['the port, as it used to be said', raw('OUTPUT -p tcp -m tcp --dport 6443 -j NOTRACK'), toVip, true],
  ['replies', raw('PREROUTING -s 10.77.0.12/32 -p tcp -j CT --notrack'), ofApiserver, true],
  ['what may be so', raw('PREROUTING -m mark --mark 0x1 -j CT --notrack'), toVip, false],
  ['what has a socket here', raw('PREROUTING -m socket -j CT --notrack'), toVip, false],
  ['another chain', raw('PREROUTING -j FAST; FAST -d 10.0.0.50/32 -j CT --notrack', 'FAST'), toVip, true],
  [
    'another chain, for some packets',
    raw('PREROUTING -m mark --mark 0x1 -j FAST; FAST -p tcp -j CT --notrack', 'FAST'),
    toVip,
    false,
  ],
  ['what may be let pass', raw('PREROUTING -i eth0 -j ACCEPT; PREROUTING -j CT --notrack'), toVip, false],
  [
    'what another chain may let pass',
    raw('PREROUTING -j FAST; FAST -i eth0 -j ACCEPT; PREROUTING -j CT --notrack', 'FAST'),
    toVip,
    false,
  ],
  ['all, behind a part', raw('PREROUTING -i eth0 -j CT --notrack; PREROUTING -j CT --notrack'), toVip, true],
  ['a range', raw('PREROUTING -p tcp -m multiport --dports 80,6000:7000 -j CT --notrack'), toVip, true],
  ['all that this host sends to itself', raw('OUTPUT -o lo -j CT --notrack'), toVip, false],
  ['a rule of nft', early('tcp dport 6443 counter packets 0 bytes 0 notrack'), toVip, true],
  ['a set of nft', early('ip daddr 10.0.0.0/24 tcp dport { 80, 6000-7000 } notrack'), toVip, true],
  ['a named set of nft', early('ip daddr @fast notrack'), toVip, false],
])('%s without tracking is found', (_what, rules, packets, isSure) => {
  const [found] = find(rules);
  expect(found?.packets).toContain(packets);
  expect(found?.isSure).toBe(isSure);
});

test.each<[string, ForeignRules]>([
  ['another protocol', raw('PREROUTING -p udp -m udp --dport 4789 -j CT --notrack')],
  ['another port', raw('PREROUTING -p tcp -m tcp --dport 80 -j CT --notrack')],
  ['what comes back by lo', raw('PREROUTING -i lo -j CT --notrack')],
  ['a helper', raw('PREROUTING -p tcp -m tcp --dport 6443 -j CT --helper ftp')],
  ['a chain that nobody leads to', raw('FAST -j CT --notrack', 'FAST')],
  ['what a chain lets pass', raw('PREROUTING -j FAST; FAST -j ACCEPT; PREROUTING -j CT --notrack', 'FAST')],
  ['what is let pass before', raw('PREROUTING -p tcp -j ACCEPT; PREROUTING -j CT --notrack')],
  ['by a goto', raw('PREROUTING -g FAST; PREROUTING -j CT --notrack; FAST -p udp -j CT --notrack', 'FAST')],
  ['IPv6 alone', early('ip6 daddr != fd00::/8 notrack; ip6 nexthdr tcp notrack; meta nfproto ipv6 notrack')],
  ['another protocol of nft', early('udp dport { 53, 6443 } notrack; meta l4proto 17 notrack')],
  ['another network of nft', early('ip daddr 192.168.0.0/16 tcp dport 80 notrack')],
])('%s without tracking is of no matter', (_what, rules) => {
  expect(find(rules)).toEqual([]);
});

test.each<[string, (rules: string) => ForeignRules, string, string]>([
  [
    'iptables-nft -t raw -I ',
    raw,
    'PREROUTING -p tcp -m tcp --dport 6443 -j CT --notrack',
    'OUTPUT -j CT --notrack',
  ],
  ['nft insert rule inet fast early ', early, 'notrack', 'notrack'],
])('the exemptions let all of them be tracked: %s', (command, write, ...rules) => {
  const exemptions = find(write(rules.join('; '))).flatMap((one) => one.exemptions);
  expect(exemptions.length).toBeGreaterThan(0);
  const before = exemptions.map((line) => line.replace(command, ''));
  expect(find(write([...before, ...rules].join('; ')))).toEqual([]);
});

test('where the tool hides ports, what looks like all connections may be others', async () => {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  kernel.run('ipv4', 'nft', '*mangle\n-A PREROUTING -p tcp -j DROP\nCOMMIT\n');
  const seen = await lookOnce(kernel, ordinaryConfig);
  expect([seen, hiding(seen)].map((one) => findDropRules(one).length)).toEqual([1, 0]);
  const untracked = raw('PREROUTING -p tcp -j CT --notrack');
  const found = [seen, hiding(seen)].map((one) => findUntrackedPackets([untracked], one)[0]?.isSure);
  expect(found).toEqual([true, false]);
});

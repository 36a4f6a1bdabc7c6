import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Balance, Change } from '../../../../lib/dialect.ts';
import { isConflicting, toRestoreLines, toCommand } from '../../../../lib/iptables/diff.ts';
import { listPackets } from '../../../../lib/iptables/rules.ts';
import { describe, test, expect } from '@jest/globals';
import { execFileSync } from 'node:child_process';

const apiservers = ['10.0.0.11:6443', '10.0.0.12:6443'].map(toEndpoint);
const toBalance = (vip: string): Balance => ({
  ...{ vip: toEndpoint(vip), route: { kind: 'translate', backends: apiservers } },
  ...{ masquerade: 'own', apiservers },
});
const balances = ['10.1.0.50:443', '10.1.0.51:8443'].map(toBalance);
const serviceChain: Balance = { ...toBalance('10.1.0.50:443'), route: { kind: 'jump', chain: 'KUBE-SVC-X' } };
const unknownEnds: Balance = { ...serviceChain, apiservers: [] };
const clusterIp: Balance = {
  ...toBalance('10.1.0.50:443'),
  route: { kind: 'translate', backends: [toEndpoint('10.96.0.1:443')] },
};

const isRivalIn = (chain: string, text: string, of: readonly Balance[] = balances) =>
  isConflicting(text, chain, listPackets(chain, of));

describe('a rule before our hook that could take a packet, as it is in that chain, is a rival', () => {
  test.each([
    ['PREROUTING', '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'],
    ['PREROUTING', '-m addrtype --dst-type LOCAL -j DOCKER'],
    ['OUTPUT', '-j STRANGER'],
    ['PREROUTING', '-d 10.1.0.50/32 -p tcp -m tcp --dport 443 -j REDIRECT --to-ports 9445'],
    ['PREROUTING', '-d 10.1.0.0/24 -j ACCEPT'],
    ['PREROUTING', '-p tcp -m tcp --dport 8000:9000 -j DNAT --to-destination 10.9.9.9'],
    ['PREROUTING', '-p tcp -m multiport --dports 80,400:500 -j ACCEPT'],
    ['PREROUTING', '! -d 10.2.0.0/16 -j RETURN'],
    ['PREROUTING', '! -p udp -j RETURN'],
    ['PREROUTING', '-d 10.0.0.0/255.0.0.255 -j ACCEPT'],
    ['PREROUTING', '-p 6 -j DROP'],
    ['PREROUTING', '-m conntrack --ctstate NEW,RELATED -j ACCEPT'],
    ['PREROUTING', '! -i lo -j ACCEPT'],
    // After translation the destination is an apiserver.
    ['POSTROUTING', '-d 10.0.0.0/24 -j ACCEPT'],
    ['POSTROUTING', '-d 10.0.0.0/24 -j RETURN'],
    ['POSTROUTING', '-p tcp -m tcp --dport 6443 -j ACCEPT'],
    ['POSTROUTING', '-s 10.1.0.0/16 ! -d 10.1.0.0/16 -j SNAT --to-source 10.1.0.1'],
    ['FORWARD', '-d 10.0.0.12/32 -p tcp -m tcp --dport 6443 -j DROP'],
    ['FORWARD', '-p tcp -m tcp --dport 6443 -j REJECT'],
    ['FORWARD', '-s 10.0.0.12/32 -j DROP'],
    ['FORWARD', '-p tcp -m tcp --sport 6443 -j DROP'],
    ['FORWARD', '-m conntrack --ctstate DNAT -j DROP'],
    ['FORWARD', '-m conntrack ! --ctstate ESTABLISHED -j DROP'],
    ['FORWARD', '-j DOCKER-USER'],
    ['INPUT', '-p tcp -m tcp --sport 6443 -j ACCEPT'],
    ['INPUT', '-s 10.0.0.0/8 -j REJECT'],
    ['INPUT', '-m conntrack --ctstate INVALID -j REJECT'],
    ['INPUT', '-j ufw-before-input'],
  ])('%s %s', (chain, text) => {
    expect(isRivalIn(chain, text)).toBe(true);
  });

  test('also one about the ClusterIP, which a local connection still asks for in POSTROUTING', () => {
    const text = '-d 10.96.0.1/32 -j ACCEPT';
    expect(isRivalIn('POSTROUTING', text)).toBe(false);
    expect(isRivalIn('POSTROUTING', text, [clusterIp])).toBe(true);
  });

  test("and one about any address where nobody knows where kube-proxy's chain leads", () => {
    const text = '-d 192.168.0.0/16 -j ACCEPT';
    expect(isRivalIn('POSTROUTING', text, [serviceChain])).toBe(false);
    expect(isRivalIn('POSTROUTING', text, [unknownEnds])).toBe(true);
  });
});

test.each([
  ['PREROUTING', '-j LOG --log-prefix "in: "'],
  ['PREROUTING', '-j MARK --set-xmark 0x1/0x1'],
  ['PREROUTING', '-m comment --comment "counts only"'],
  ['PREROUTING', '-d 10.1.0.99/32 -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.9.9.9'],
  ['PREROUTING', '-d 192.168.0.0/16 -j ACCEPT'],
  ['PREROUTING', '! -d 10.1.0.0/16 -j RETURN'],
  ['PREROUTING', '-p udp -j ACCEPT'],
  ['PREROUTING', '! -p tcp -j ACCEPT'],
  ['PREROUTING', '-p tcp -m tcp --dport 80 -j REDIRECT --to-ports 9445'],
  ['PREROUTING', '-p tcp -m multiport --dports 80,8080 -j ACCEPT'],
  ['PREROUTING', '-i lo -j ACCEPT'],
  ['PREROUTING', '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
  // What asks for the VIP is in no chain after translation.
  ['POSTROUTING', '-d 10.1.0.0/16 -j ACCEPT'],
  ['FORWARD', '-p tcp -m tcp --dport 443 -m conntrack --ctstate NEW -j DROP'],
  // It decides as ours does.
  ['FORWARD', '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
  ['FORWARD', '-m conntrack --ctstate INVALID -j DROP'],
  ['FORWARD', '-m conntrack ! --ctstate DNAT -j DROP'],
  ['FORWARD', '-j VIPLB-FORWARD'],
  ['INPUT', '-m conntrack --ctstate INVALID -j DROP'],
  ['INPUT', '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
  ['INPUT', '-m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL'],
  ['INPUT', '-i lo -j ACCEPT'],
  ['INPUT', '-s 10.1.0.0/16 -j ACCEPT'],
  // These insist on being first, and may be.
  ['PREROUTING', '-m comment --comment "x" -j cali-PREROUTING'],
  ['PREROUTING', '-m comment --comment "x" -j CILIUM_PRE_nat'],
  ['PREROUTING', '-m comment --comment "x" -j KUBE-ROUTER-FORWARD'],
])('a rule that cannot take one is none: %s %s', (chain, text) => {
  expect(isRivalIn(chain, text)).toBe(false);
});

test('without a VIP nothing is a rival', () => {
  expect(isRivalIn('PREROUTING', '-j KUBE-SERVICES', [])).toBe(false);
});

const creation: Change = { kind: 'reset-chain', chain: 'VIPNAT', exists: false };
const flush: Change = { kind: 'reset-chain', chain: 'VIPNAT', exists: true };
const hook: Change = { kind: 'insert', chain: 'PREROUTING', rule: '-j VIPNAT' };
const rule: Change = { kind: 'append', chain: 'VIPNAT', rule: '-j RETURN' };
const bracketed: Change = { ...rule, rule: '-j DNAT --to-destination [fd00::11]:6443' };
const deletion: Change = { kind: 'delete', chain: 'OUTPUT', rule: '-j VIPNAT-OLD' };
const end: Change = { kind: 'delete-chain', chain: 'VIPNAT-OLD' };

test('changes to one table are one part of a restore script, from its name to COMMIT', () => {
  expect(toRestoreLines('nat', [flush, rule, deletion, hook, end])).toEqual([
    '*nat',
    ':VIPNAT - [0:0]',
    '-A VIPNAT -j RETURN',
    '-D OUTPUT -j VIPNAT-OLD',
    '-I PREROUTING -j VIPNAT',
    '-X VIPNAT-OLD',
    'COMMIT',
  ]);
});

describe('the same changes as commands', () => {
  test.each([
    [creation, 'ipt -t nat -N VIPNAT 2>/dev/null || ipt -t nat -F VIPNAT'],
    [flush, 'ipt -t nat -F VIPNAT'],
    [rule, 'ipt -t nat -A VIPNAT -j RETURN'],
    [bracketed, "ipt -t nat -A VIPNAT -j DNAT --to-destination '[fd00::11]:6443'"],
    [hook, 'ipt -t nat -C PREROUTING -j VIPNAT 2>/dev/null || ipt -t nat -I PREROUTING -j VIPNAT'],
    [deletion, 'ipt -t nat -D OUTPUT -j VIPNAT-OLD'],
    [end, 'ipt -t nat -X VIPNAT-OLD'],
  ])('%j', (change, command) => {
    expect(toCommand('ipt', 'nat', change)).toBe(command);
  });

  test.each(['"vipnat:$(reboot)"', '"vipnat:`reboot`"', 'vipnat:;reboot', `"vipnat:'$(reboot)'"`])(
    "what a stranger's rule says is kept from the shell: %s",
    (comment) => {
      const stranger: Change = { kind: 'delete', chain: 'OUTPUT', rule: `--comment ${comment} -j VIPNAT` };
      const output = execFileSync('bash', ['-c', toCommand(String.raw`printf '%s\0'`, 'nat', stranger)], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const word = comment.replaceAll('"', '');
      expect(output.split('\0').slice(2, -1)).toEqual(['-D', 'OUTPUT', '--comment', word, '-j', 'VIPNAT']);
    },
  );
});

import type { SaveOutput } from '../../../../lib/kernel/port.ts';
import {
  type IptablesProxyView,
  readIptablesProxy,
  kubernetesService,
} from '../../../../lib/kube-proxy/read.ts';
import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';

const three = readCapture('iptables-nft-save.three-endpoints.txt');
const allThree = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];

function view(text: string, output: Partial<SaveOutput> = {}): IptablesProxyView {
  return readIptablesProxy(parseSave({ family: 'ipv4', dialect: 'nft', text, ...output }), kubernetesService);
}

function listBackends({ backends }: IptablesProxyView): string[] | null {
  return backends?.value.map(formatEndpoint) ?? null;
}

const kubernetesChain = 'KUBE-SVC-NPX46M4PTMTKRN6Y';
const toClusterIp = '-A KUBE-SERVICES -d 10.96.0.1/32';
const edgeLine = /^-A KUBE-SERVICES .*-j KUBE-SVC-NPX46M4PTMTKRN6Y\n/m;

describe('a real kube-proxy in iptables mode', () => {
  test.each([
    ['nft', 'three-endpoints', allThree],
    ['legacy', 'three-endpoints', allThree],
    ['nft', 'two-endpoints', allThree.slice(0, 2)],
    ['legacy', 'two-endpoints', allThree.slice(0, 2)],
    ['nft', 'client-ip-affinity', allThree],
    ['legacy', 'client-ip-affinity', allThree],
  ] as const)('%s, %s: the edge is live and leads to its apiservers', (dialect, state, expected) => {
    const seen = view(readCapture(`iptables-${dialect}-save.${state}.txt`), { dialect });
    expect(seen).toMatchObject({
      entryRule: {
        value: { clusterIp: '10.96.0.1', port: 443 },
        seenIn: `nat KUBE-SERVICES (iptables-${dialect})`,
      },
      isHooked: true,
      unwanted: null,
      masqueradeMark: { value: 0x4000, seenIn: `nat KUBE-MARK-MASQ (iptables-${dialect})` },
      hasIpvsRules: false,
      hasKubeProxyChains: true,
    });
    expect(listBackends(seen)).toEqual(expected);
    expect(seen.backends?.seenIn).toBe(`nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-${dialect})`);
    expect(seen.affinitySeconds).toBe(state === 'client-ip-affinity' ? 10_800 : null);
  });

  test.each(['nft', 'legacy'] as const)('%s, no endpoints: no edge, and its chain is unwanted', (dialect) => {
    const seen = view(readCapture(`iptables-${dialect}-save.no-endpoints.txt`), { dialect });
    expect(seen).toMatchObject({ entryRule: null, backends: null, isHooked: true });
    expect(seen.unwanted?.value).toMatch(/^-d 10\.96\.0\.1\/32 .*has no endpoints.* -j REJECT/);
    expect(seen.unwanted?.seenIn).toBe(`filter KUBE-SERVICES (iptables-${dialect})`);
  });

  test('a family without the Service has hooks and no edge', () => {
    const seen = view(readCapture('ip6tables-nft-save.three-endpoints.txt'), { family: 'ipv6' });
    expect(seen).toMatchObject({ entryRule: null, backends: null, isHooked: true, unwanted: null });
    expect(seen.masqueradeMark?.seenIn).toBe('nat KUBE-MARK-MASQ (ip6tables-nft)');
  });

  test('in ipvs mode it has rules of that mode and no edge', () => {
    const seen = view(readCapture('iptables-legacy-save.ipvs-three-endpoints.txt'), { dialect: 'legacy' });
    expect(seen).toMatchObject({ entryRule: null, isHooked: true, hasIpvsRules: true, unwanted: null });
  });
});

describe('the live edge', () => {
  test('is what makes the chain alive: without it the chain is a leftover', () => {
    const seen = view(three.replace(edgeLine, ''));
    expect(seen).toMatchObject({ entryRule: null, backends: null, hasKubeProxyChains: true });
  });

  test('needs no comment, which kube-proxy leaves out in large clusters', () => {
    const seen = view(three.replaceAll(/ -m comment --comment "[^"]*"/g, ''));
    expect(seen.entryRule?.value.clusterIp).toBe('10.96.0.1');
    expect(listBackends(seen)).toEqual(allThree);
  });

  test.each([
    ['another port', '--dport 443 -j KUBE-SVC-NPX', '--dport 8443 -j KUBE-SVC-NPX'],
    ['another protocol', `${toClusterIp} -p tcp`, `${toClusterIp} -p udp`],
    ['a range', toClusterIp, '-A KUBE-SERVICES -d 10.96.0.0/16'],
    ['every other address', toClusterIp, '-A KUBE-SERVICES ! -d 10.96.0.1/32'],
    ['another service', `-j ${kubernetesChain}`, '-j KUBE-SVC-CDGGSHYLG3RE2FKL'],
    ['a comment', `-j ${kubernetesChain}`, `-m comment --comment ${kubernetesChain} -j RETURN`],
  ])('is not a rule for %s', (_, from, to) => {
    expect(three).toContain(from);
    expect(view(three.replace(from, to)).entryRule).toBeNull();
  });

  test('is the first rule that leads there: up to 1.23 external addresses do so as well, after the ClusterIP', () => {
    const external = `-A KUBE-SERVICES -d 192.0.2.9/32 -p tcp -m tcp --dport 443 -j ${kubernetesChain}\n`;
    const seen = view(three.replace(edgeLine, (edge) => edge + external));
    expect(seen.entryRule?.value.clusterIp).toBe('10.96.0.1');
  });

  test('can be of IPv6', () => {
    const text = three
      .replaceAll('10.96.0.1/32', 'fd00:96::1/128')
      .replaceAll(/10\.77\.0\.(1\d):6443/g, '[fd00:77::$1]:6443');
    const seen = view(text, { family: 'ipv6' });
    expect(seen.entryRule).toEqual({
      value: { clusterIp: 'fd00:96::1', port: 443 },
      seenIn: 'nat KUBE-SERVICES (ip6tables-nft)',
    });
    expect(listBackends(seen)).toEqual(['[fd00:77::11]:6443', '[fd00:77::12]:6443', '[fd00:77::13]:6443']);
  });

  test('counts without a hook, which is told apart', () => {
    const seen = view(three.replace(/^-A PREROUTING .*-j KUBE-SERVICES\n/m, ''));
    expect(seen.entryRule).not.toBeNull();
    expect(seen.isHooked).toBe(false);
  });
});

test('rules of kube-proxy 1.21 and earlier have the same edge, though the masquerade rule comes first', () => {
  const mark =
    '-A KUBE-SERVICES ! -s 10.244.0.0/16 -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-MARK-MASQ\n';
  const seen = view(
    three
      .replace(edgeLine, (edge) => mark + edge)
      .replace(/^-A KUBE-SVC-NPX46M4PTMTKRN6Y ! -s .*\n/m, '')
      .replaceAll(/"default\/kubernetes:https -> [^"]*"/g, '"default/kubernetes:https"'),
  );
  expect(seen.entryRule?.value).toEqual({ clusterIp: '10.96.0.1', port: 443 });
  expect(listBackends(seen)).toEqual(allThree);
});

test.each([
  ['unknown when one has no port', '--to-destination 10.77.0.12:6443', '--to-destination 10.77.0.12', null],
  ['unknown when one leads nowhere', /^-A KUBE-SEP-ZHKZKXXJNCYAKRWZ .*DNAT.*\n/m, '', null],
  ['none when the chain leads nowhere', /^-A KUBE-SVC-NPX46M4PTMTKRN6Y .*\n/gm, '', []],
])('the backends are %s: half a list would look like a dead apiserver', (_, from, to, expected) => {
  expect(listBackends(view(three.replace(from, to)))).toEqual(expected);
});

describe('kube-proxy wants its chain gone', () => {
  const reject = (comment: string, address = '10.96.0.1', target = 'REJECT') =>
    `-A KUBE-SERVICES -d ${address}/32 -p tcp -m comment --comment "${comment}" -m tcp --dport 443 -j ${target}\n`;
  const withFilterRule = (rule: string) =>
    three.replace(/^COMMIT\n(?=# .*\n# .*\n\*nat)/m, `${rule}COMMIT\n`);

  test.each(['REJECT', 'DROP'])('when filter has a %s for the address of the live edge', (target) => {
    const seen = view(withFilterRule(reject('whatever', '10.96.0.1', target)));
    expect(seen.entryRule).not.toBeNull();
    expect(seen.unwanted?.value).toContain(`-j ${target}`);
  });

  test.each([
    ['default/kubernetes:https', true],
    ['default/kubernetes:other', false],
  ])('by the name alone where the tool hides ports: %s', (name, isUnwanted) => {
    const text = withFilterRule(reject(`${name} has no endpoints`))
      .replaceAll(/(?: -m tcp)? --[ds]port \d+/g, '')
      .replaceAll('v1.8.9', 'v1.8.7');
    expect(view(text).entryRule?.value).toEqual({ clusterIp: '10.96.0.1', port: 443 });
    expect(view(text).unwanted !== null).toBe(isUnwanted);
  });

  test('when the comment says so, whatever the address', () => {
    const rule = reject('default/kubernetes:https has no endpoints', '10.96.0.9');
    expect(view(withFilterRule(rule)).unwanted).not.toBeNull();
  });

  test.each([
    ['another service has no endpoints', reject('default/web:https has no endpoints', '10.96.7.7')],
    ['a rule only accepts', reject('default/kubernetes:https cluster IP', '10.96.0.1', 'ACCEPT')],
    ['another port is rejected', reject('x').replace('--dport 443', '--dport 4430')],
    ['one with a longer name has none', reject('default/kubernetes:https-2 has no endpoints', '10.96.7.7')],
  ])('not when %s', (_, rule) => {
    const text = withFilterRule(rule);
    expect(text).toContain(rule);
    expect(view(text).unwanted).toBeNull();
  });
});

describe('the masquerade mark', () => {
  const mark = '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n';

  test.each([
    ['another bit', '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x8000/0x8000\n', 0x8000],
    ['the text that kube-proxy wrote', '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n', 0x4000],
  ])('is read from %s', (_, rule, value) => {
    expect(view(three.replace(mark, rule)).masqueradeMark?.value).toBe(value);
  });

  test.each([
    ['the chain is empty, as cleanup of a left mode makes it', ''],
    ['the bit is toggled', '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x0\n'],
    ['no bit is set', '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x0/0x0\n'],
    ['the chain only returns', '-A KUBE-MARK-MASQ -j RETURN\n'],
  ])('is unknown when %s', (_, rule) => {
    expect(three).toContain(mark);
    expect(view(three.replace(mark, rule)).masqueradeMark).toBeNull();
  });
});

test('a host without kube-proxy shows nothing of it', () => {
  expect(view('')).toEqual({
    ...{ entryRule: null, affinitySeconds: null, isHooked: false, backends: null },
    ...{ unwanted: null, masqueradeMark: null, hasIpvsRules: false, hasKubeProxyChains: false },
  });
});

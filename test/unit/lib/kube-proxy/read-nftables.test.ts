import { type NftProxyView, readNftProxy, kubernetesService } from '../../../../lib/kube-proxy/read.ts';
import { readCapture } from '../../../support/kube-proxy/read-capture.ts';
import { type Family, formatEndpoint } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';

const chain = 'service-2QRHZV4L-default/kubernetes/tcp/https';
const allThree = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];

const readState = (state: string) => readCapture(`nft-kube-proxy.${state}.json`);

function view(json: string, family: Family = 'ipv4'): NftProxyView {
  const { nftables } = JSON.parse(json) as { nftables: unknown[] };
  return readNftProxy({ family, objects: nftables }, kubernetesService);
}

function listBackends({ backends }: NftProxyView): string[] | null {
  return backends?.value.map(formatEndpoint) ?? null;
}

/** The same JSON without blanks, so that parts of it can be replaced by their text. */
const compact = (state: string) => JSON.stringify(JSON.parse(readState(state)));

describe('a real kube-proxy in nftables mode', () => {
  test.each([
    ['three-endpoints', allThree],
    ['two-endpoints', allThree.slice(0, 2)],
    ['client-ip-affinity', allThree],
  ])('%s: the edge is live and leads to its apiservers', (state, expected) => {
    const seen = view(readState(state));
    expect(seen.entryRule).toEqual({
      value: { clusterIp: '10.96.0.1', port: 443 },
      seenIn: 'map service-ips (nft table ip kube-proxy)',
    });
    expect(listBackends(seen)).toEqual(expected);
    expect(seen.backends?.seenIn).toBe(`chain ${chain} (nft table ip kube-proxy)`);
    expect(seen.unwanted).toBeNull();
    expect(seen.affinitySeconds).toBe(state === 'client-ip-affinity' ? 10_800 : null);
  });

  test('no endpoints: no edge, though its chain stays for a while, and the ClusterIP is rejected', () => {
    expect(view(readState('no-endpoints'))).toEqual({
      ...{ entryRule: null, affinitySeconds: null, backends: null },
      unwanted: {
        value: '10.96.0.1 . tcp . 443 : goto reject-chain',
        seenIn: 'map no-endpoint-services (nft table ip kube-proxy)',
      },
    });
  });
});

describe('the live edge', () => {
  const element = '[{"concat":["10.96.0.1","tcp",443]},';

  test('is found when nft knows no name for the protocol, as in an image without /etc/protocols', () => {
    const text = compact('three-endpoints').replace(element, '[{"concat":["10.96.0.1",6,443]},');
    expect(view(text).entryRule?.value.clusterIp).toBe('10.96.0.1');
  });

  test.each([
    ['another protocol', '[{"concat":["10.96.0.1","udp",443]},'],
    ['another port', '[{"concat":["10.96.0.1","tcp",444]},'],
    ['something else than an address', '[{"concat":["kubernetes","tcp",443]},'],
    ['an address of the other family', '[{"concat":["fd00::1","tcp",443]},'],
    ['a key of another shape', '["10.96.0.1",'],
  ])('is not an element with %s', (_, other) => {
    expect(compact('three-endpoints')).toContain(element);
    expect(view(compact('three-endpoints').replace(element, other)).entryRule).toBeNull();
  });

  test('is unknown when two addresses lead to the chain', () => {
    const goto = `{"goto":{"target":"${chain}"}}`;
    const second = `[{"concat":["10.96.0.2","tcp",443]},${goto}],`;
    expect(view(compact('three-endpoints').replace(element, second + element)).entryRule).toBeNull();
  });

  test('is found in IPv6, and says so', () => {
    const text = compact('three-endpoints')
      .replaceAll('"10.96.0.1"', '"fd00:96::1"')
      .replaceAll(/"10\.77\.0\.(1\d)"/g, '"fd00:77::$1"');
    const seen = view(text, 'ipv6');
    expect(seen.entryRule).toEqual({
      value: { clusterIp: 'fd00:96::1', port: 443 },
      seenIn: 'map service-ips (nft table ip6 kube-proxy)',
    });
    expect(listBackends(seen)).toEqual(['[fd00:77::11]:6443', '[fd00:77::12]:6443', '[fd00:77::13]:6443']);
  });
});

describe('the backends', () => {
  test('are found where rules jump for masquerading first, as up to 1.30', () => {
    const rule = `{"rule":{"chain":"${chain}","expr":[{"jump":{"target":"mark-for-masquerade"}}]}}`;
    const text = compact('client-ip-affinity').replace('{"table":', `${rule.slice(0, -1)}},{"table":`);
    expect(listBackends(view(text))).toEqual(allThree);
  });

  test('are found in a single rule without a map', () => {
    const objects = [
      {
        map: {
          name: 'service-ips',
          elem: [[{ concat: ['10.96.0.1', 'tcp', 443] }, { goto: { target: chain } }]],
        },
      },
      { rule: { chain, expr: [{ dnat: { addr: '10.77.0.11', port: 6443 } }] } },
    ];
    expect(listBackends(readNftProxy({ family: 'ipv4', objects }, kubernetesService))).toEqual([
      '10.77.0.11:6443',
    ]);
  });

  const [sticky, plain] = ['client-ip-affinity', 'three-endpoints'];
  const target = '{"addr":"10.77.0.12","port":6443}';
  const [inChains, inline] = ['"data":{"set":[[0,{"goto"', '"data":{"set":[[0,{"concat":["10.77'];
  const toOwnMap = (text: string) => text.replace('"data":', '"data":"@map","was":');

  test.each([
    [sticky, 'an endpoint chain translates to no port', target, '{"addr":"10.77.0.12"}'],
    [sticky, 'a port is out of range', target, '{"addr":"10.77.0.12","port":65536}'],
    [sticky, 'an endpoint is of the other family', target, '{"addr":"fd00::1","port":6443}'],
    [sticky, 'an endpoint chain is missing', '"chain":"endpoint-VLWO454Z', '"chain":"gone-VLWO454Z'],
    [sticky, 'a verdict is of an unknown kind', '[1,{"goto":', '[1,{"leap":'],
    [sticky, 'the verdicts are in a map of their own', inChains, toOwnMap(inChains)],
    [plain, 'an inline map has no port', '[1,{"concat":["10.77.0.12",6443]}]', '[1,"10.77.0.12"]'],
    [plain, 'the addresses are in a map of their own', inline, toOwnMap(inline)],
  ])('of %s are unknown when %s: half a list would look like a dead apiserver', (state, _, from, to) => {
    const text = compact(state);
    expect(text).toContain(from);
    const seen = view(text.replaceAll(from, to));
    expect(seen.entryRule).not.toBeNull();
    expect(seen.backends).toBeNull();
  });
});

const withRejected = (element: string) =>
  compact('three-endpoints').replace(
    /("name":"no-endpoint-services".*?"map":"verdict")/,
    `$1,"elem":[[${element},{"goto":{"target":"reject-chain"}}]]`,
  );

const named = (address: string, name: string) =>
  `{"elem":{"val":{"concat":["${address}","tcp",443]},"comment":"${name}"}}`;

test.each([
  ['when the address of the live edge is rejected', '{"concat":["10.96.0.1","tcp",443]}', '10.96.0.1'],
  ['when the comment names the service', named('10.96.0.9', 'default/kubernetes:https'), '10.96.0.9'],
  ['not when another service has no endpoints', named('10.96.7.9', 'default/web:https'), null],
])('kube-proxy wants its chain gone %s', (_, element, address) => {
  const { entryRule, unwanted } = view(withRejected(element));
  expect(entryRule).not.toBeNull();
  expect(unwanted?.value.split(' ')[0] ?? null).toBe(address);
});

test.each([[[]], [[null, 7, 'x', [], {}]], [[{ map: null }, { rule: { chain, expr: 'x' } }]]])(
  'objects of other shapes (%j) show nothing',
  (objects: unknown[]) => {
    expect(readNftProxy({ family: 'ipv4', objects }, kubernetesService)).toEqual({
      ...{ entryRule: null, affinitySeconds: null, backends: null, unwanted: null },
    });
  },
);

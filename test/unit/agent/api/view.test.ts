import { describe, expect, test } from '@jest/globals';
import { type EndpointSlice, type Service } from '../../../../lib/kubernetes/resources.ts';
import { toApiView } from '../../../../agent/api/view.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { makeService, makeSlice } from '../../../support/kube-api/kube-store.ts';

const slice = (addresses: readonly string[], more: object = {}, fields: object = {}) =>
  ({ ...makeSlice(addresses, more), ...fields }) as unknown as EndpointSlice;
const service = (spec: object = {}) => makeService(spec) as unknown as Service;

const view = (slices: readonly EndpointSlice[]) => toApiView(slices, null, true);
const listed = (slices: readonly EndpointSlice[], family: 'ipv4' | 'ipv6' = 'ipv4') =>
  view(slices).endpoints[family]?.value.map(formatEndpoint);

describe('EndpointSlices', () => {
  test('of both families are told apart, and several of one are joined', () => {
    const slices = [
      slice(['10.77.0.12'], { name: 'kubernetes-b' }),
      slice(['fd77::11'], { name: 'kubernetes-6', addressType: 'IPv6' }),
      slice(['10.77.0.11', '10.77.0.12'], { name: 'kubernetes' }),
    ];
    expect(listed(slices)).toEqual(['10.77.0.11:6443', '10.77.0.12:6443']);
    expect(listed(slices, 'ipv6')).toEqual(['[fd77::11]:6443']);
    expect(view(slices).endpoints.ipv4?.seenIn).toBe("the API's EndpointSlices kubernetes, kubernetes-b");
    expect(view(slices).endpoints.ipv6?.seenIn).toBe("the API's EndpointSlice kubernetes-6");
  });

  test('count as ready unless they say otherwise, as the API has it', () => {
    const endpoints = [
      { addresses: ['10.77.0.11'] },
      { addresses: ['10.77.0.12'], conditions: {} },
      { addresses: ['10.77.0.13'], conditions: { ready: null } },
      { addresses: ['10.77.0.14'], conditions: { ready: false } },
    ];
    expect(listed([slice([], {}, { endpoints })])).toEqual([
      '10.77.0.11:6443',
      '10.77.0.12:6443',
      '10.77.0.13:6443',
    ]);
  });

  test.each([
    ['none', { endpoints: null }],
    ['only unready ones', { endpoints: [{ addresses: ['10.77.0.11'], conditions: { ready: false } }] }],
  ])('with %s name none, and nothing is refused', (_what, fields) => {
    expect(view([slice([], {}, fields)])).toMatchObject({
      endpoints: { ipv4: { value: [], seenIn: "the API's EndpointSlice kubernetes" } },
      refused: [],
    });
  });

  test.each<[string, object[], string[] | undefined]>([
    [
      'named https',
      [
        { name: 'metrics', port: 1 },
        { name: 'https', port: 6444 },
      ],
      ['10.77.0.11:6444'],
    ],
    ['the only one', [{ name: '', port: 6445 }], ['10.77.0.11:6445']],
    [
      'one of several',
      [
        { name: 'a', port: 1 },
        { name: 'b', port: 2 },
      ],
      [],
    ],
    ['UDP', [{ name: 'https', port: 6443, protocol: 'UDP' }], []],
    ['0', [{ name: 'https', port: 0 }], []],
    ['65536', [{ name: 'https', port: 65_536 }], []],
    ['none', [], []],
  ])('with a port that is %s', (_what, ports, apiservers) => {
    const slices = [slice(['10.77.0.11'], {}, { ports })];
    expect(listed(slices)).toEqual(apiservers);
    const refused = "vipnat does not use the API's EndpointSlice kubernetes: it has no TCP port named https";
    expect(view(slices).refused).toEqual(apiservers?.length === 0 ? [refused] : []);
  });

  test.each([
    ['10.77.0.300', '"10.77.0.300" is not an IPv4 address'],
    ['fd77::11', '"fd77::11" is not an IPv4 address'],
    ['m1.example.com', '"m1.example.com" is not an IPv4 address'],
    ['10.77.0.11; -j ACCEPT\n*nat', '"10.77.0.11; -j ACCEPT *nat" is not an IPv4 address'],
    ['', '"" is not an IPv4 address'],
  ])('with an address that is none are used without it: %j', (address, complaint) => {
    const slices = [slice([address, '10.77.0.11'])];
    expect(listed(slices)).toEqual(['10.77.0.11:6443']);
    expect(view(slices).refused).toEqual([
      `${complaint}, so vipnat does not use it as an apiserver (the API's EndpointSlice kubernetes)`,
    ]);
  });

  test('of names are refused as a whole', () => {
    expect(view([slice(['m1.example.com'], { addressType: 'FQDN' })])).toMatchObject({
      endpoints: {},
      refused: ["vipnat does not use the API's EndpointSlice kubernetes: it has addresses of type FQDN"],
    });
  });
});

describe('the Service', () => {
  test.each<[string, object, object]>([
    ['one family', {}, { ipv4: '10.96.0.1' }],
    ['both', { clusterIPs: ['fd00:10:96:0::1', '10.96.0.1'] }, { ipv4: '10.96.0.1', ipv6: 'fd00:10:96::1' }],
    ['none', { clusterIP: 'None', clusterIPs: ['None'] }, {}],
    ['an old API', { clusterIPs: undefined }, { ipv4: '10.96.0.1' }],
    ['what no Service has', { clusterIP: '127.0.0.1', clusterIPs: ['127.0.0.1'] }, {}],
  ])('has its ClusterIPs: %s', (_what, spec, clusterIps) => {
    expect(toApiView(null, service(spec), true).clusterIps).toEqual(clusterIps);
  });

  test.each<[object, number | null, number]>([
    [{}, null, 0],
    [{ sessionAffinity: 'ClientIP' }, 10_800, 0],
    [{ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } }, 60, 0],
    [{ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } }, 10_800, 1],
    [
      { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } } },
      10_800,
      1,
    ],
    [{ sessionAffinity: 'None', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } }, null, 0],
  ])('has its session affinity: %j', (spec, seconds, refusals) => {
    const { affinitySeconds, refused } = toApiView(null, service(spec), true);
    expect([affinitySeconds, refused.length]).toEqual([seconds, refusals]);
  });
});

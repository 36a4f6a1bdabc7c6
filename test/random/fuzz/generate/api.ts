import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const slice = (addressType: string, addresses: readonly string[], resourceVersion = '210') => ({
  metadata: {
    name: 'kubernetes',
    namespace: 'default',
    resourceVersion,
    labels: { 'kubernetes.io/service-name': 'kubernetes' },
  },
  addressType,
  endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
  ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
});

const ipv4 = ['10.77.0.11', '10.77.0.12', '10.77.0.13'];
const ipv6 = ['fd00:77::11', 'fd00:77::12'];

/** Lists as kube-apiserver 1.36 answers them, as far as anything is read of them. */
export const listings = {
  slices: { kind: 'EndpointSliceList', metadata: { resourceVersion: '300' }, items: [slice('IPv4', ipv4)] },
  slices6: { kind: 'EndpointSliceList', metadata: { resourceVersion: '300' }, items: [slice('IPv6', ipv6)] },
  service: {
    kind: 'ServiceList',
    metadata: { resourceVersion: '300' },
    items: [
      {
        metadata: { name: 'kubernetes', namespace: 'default', resourceVersion: '200' },
        spec: {
          clusterIP: '10.96.0.1',
          clusterIPs: ['10.96.0.1', 'fd00:96::1'],
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
        },
      },
    ],
  },
};

/** What a watch sends, a line each. */
export const eventLines: readonly object[] = [
  { type: 'ADDED', object: slice('IPv4', ipv4, '301') },
  { type: 'MODIFIED', object: slice('IPv4', ipv4.slice(1), '302') },
  { type: 'DELETED', object: slice('IPv4', [], '303') },
  { type: 'BOOKMARK', object: { kind: 'EndpointSlice', metadata: { resourceVersion: '304' } } },
  { type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old a version' } },
  { type: 'ERROR', object: { kind: 'Status', code: 500, message: 'etcdserver: leader changed' } },
];

export const agentAnswers: readonly object[] = [
  {
    options: {
      vip: ['10.77.0.50:6443', '[fd00:77::50]:6443'],
      mode: ['direct'],
      clusterIp: ['10.96.0.1'],
      endpoints: ['10.77.0.11:6443,[fd00:77::11]:6443'],
      probeInterval: ['250ms'],
      caFile: [],
      nodeName: ['m1'],
      stateDir: ['/var/lib/vipnat'],
    },
  },
  { version: '0.1.0', pid: 4711, since: '2026-01-01T00:00:00.000Z' },
  {
    proxyOnly: { ipv4: [toEndpoint('10.77.0.12:6443')], ipv6: [] },
    view: {
      endpoints: {
        ipv4: { value: [toEndpoint('10.77.0.11:6443')], seenIn: "the API's EndpointSlice kubernetes" },
        ipv6: { value: [toEndpoint('[fd00:77::11]:6443')], seenIn: "the API's EndpointSlice kubernetes" },
      },
      clusterIps: { ipv4: '10.96.0.1', ipv6: 'fd00:96::1' },
      affinitySeconds: 10_800,
      refused: ['10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver'],
      isCurrent: true,
    },
  },
  {
    '10.77.0.11:6443': { state: 'ready', reason: '3 good answers', hanging: 'none' },
    '[fd00:77::11]:6443': {
      state: 'dead',
      reason: 'connection refused',
      hanging: 'all',
      unconfirmed: 'alone',
      isUnheard: true,
    },
  },
  {
    writes: 2,
    syncedMsAgo: 40,
    apiservers: { '10.77.0.11:6443': { forMs: 12_000 } },
    keepalived: { 'vip-10.0.0.50': { state: 'MASTER', forMs: 3000 } },
  },
];

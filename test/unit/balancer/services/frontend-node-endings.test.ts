import { makeEndpoints, makeLoadBalancer } from '../../../support/kube-api/service-objects.ts';
import { endpointSlices, services } from '../../../../lib/api/service.ts';
import { type Place, applyOutages, applyEndings, noEndings } from '../../../../balancer/services/backends.ts';
import { balanceService } from '../../../../balancer/services/frontend.ts';
import { test, expect } from '@jest/globals';
import { listBackends } from '../../../../lib/api/endpoints.ts';

const versioned = ({ metadata, ...rest }: ReturnType<typeof makeEndpoints>) => ({
  ...rest,
  metadata: { ...metadata, resourceVersion: '1' },
});

type Condition = 'ready' | 'not ready' | 'ending';

const toConditions: Readonly<Record<Condition, object>> = {
  ready: { ready: true, serving: true, terminating: false },
  'not ready': { ready: false, serving: false, terminating: false },
  ending: { ready: false, serving: true, terminating: true },
};

/** A pod on each of these nodes: `w1`, with the address 10.244.1.2. */
const slice = (nodes: Readonly<Record<string, Condition>>) =>
  endpointSlices.schema.parse(
    versioned(
      makeEndpoints(
        'web',
        [{ port: 8080 }],
        Object.entries(nodes).map(([nodeName, condition]) => ({
          addresses: [`10.244.${nodeName.slice(1)}.2`],
          conditions: toConditions[condition],
          nodeName,
        })),
      ),
    ),
  );

const ends = (...names: string[]) => new Map(names.map((name) => [name, 'shuts down' as const]));

/** What becomes of connections to the port on the node w1. */
function balance(nodes: Readonly<Record<string, Condition>>, parts: Partial<Place>, policy = 'Cluster') {
  const service = services.schema.parse(versioned(makeLoadBalancer('web', [{ port: 80 }])));
  const spec = { ...service.spec, externalTrafficPolicy: policy };
  const place = { node: 'w1', local: new Set<string>(), vips: new Set<string>(), zone: null, uplinks: null };
  const addresses = { ipv4: ['10.77.0.60'], ipv6: [] };
  const balanced = { service: { ...service, spec }, slices: [slice(nodes)], weights: new Map(), addresses };
  const [port] = balanceService(balanced, 'ipv4', { ...place, ...parts }).ports;
  const read = (some: readonly { address: string }[] = []) =>
    some.map(({ address }) => `w${address[7] ?? ''}`);
  return {
    backends: read(port?.backends),
    draining: read(port?.draining),
    present: read(port?.present),
    relayed: [...(port?.relay?.ends.values() ?? [])].map((node) => node ?? 'here'),
  };
}

test('pods of a node that ends get no new connection, and keep their open ones', () => {
  expect(balance({ w1: 'ready', w2: 'ready', w3: 'ready' }, { endings: ends('w2', 'w9') })).toMatchObject({
    backends: ['w1', 'w3'],
    draining: ['w2'],
    present: ['w1', 'w2', 'w3'],
  });
});

test('they serve on where nobody else is left: those that are ready, or end themselves', () => {
  const nodes = { w1: 'ready', w2: 'not ready', w3: 'ending' } as const;
  expect(balance(nodes, { endings: ends('w1', 'w2', 'w3') })).toMatchObject({ backends: ['w1', 'w3'] });
  expect(balance({ ...nodes, w4: 'ready' }, { endings: ends('w1') })).toMatchObject({ backends: ['w4'] });
});

test('a node that ends is better than one that does not answer', () => {
  const outages = { out: new Set(['w2']), lost: new Set<string>() };
  const nodes = { w1: 'ready', w2: 'ready' } as const;
  expect(balance(nodes, { outages, endings: ends('w1') })).toMatchObject({ backends: ['w1'] });
});

test('with policy Local, other nodes get the connections; a node alone with its pods keeps them', () => {
  const nodes = { w1: 'ready', w2: 'ready' } as const;
  const local = (endings: ReturnType<typeof ends>) => balance(nodes, { endings }, 'Local');
  expect(local(ends('w1'))).toMatchObject({ relayed: ['w2'], backends: ['w1'], draining: [] });
  expect(local(ends('w2'))).toMatchObject({ relayed: ['here'], backends: ['w1'] });
  expect(local(ends('w1', 'w2'))).toMatchObject({ relayed: ['here', 'w2'] });
});

test('without such a node, the endpoints are the same objects', () => {
  const query = { family: 'ipv4', name: '', protocol: 'TCP' } as const;
  const { backends } = listBackends([slice({ w1: 'ready' })], query, new Set());
  expect(applyOutages(applyEndings(backends, noEndings), { out: new Set(), lost: new Set() })).toBe(backends);
  expect(applyEndings(backends, ends('w2'))).toBe(backends);
});

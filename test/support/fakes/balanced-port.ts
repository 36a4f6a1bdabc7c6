/** What the balancer decides of one port of a Service. */
import type { Place, BalancedService, PortBalance } from '../../../balancer/services/backends.ts';
import type { KubeObject } from '../kube-api/kube-store.ts';
import { type EndpointWords, makeLoadBalancer, makeEndpoints } from '../kube-api/service-objects.ts';
import { balanceService } from '../../../balancer/services/frontend.ts';
import { services, endpointSlices } from '../../../lib/api/service.ts';

const place: Place = {
  ...{ node: 'n1', zone: 'a', local: new Set(['10.77.0.11']), vips: new Set(['10.77.0.60']) },
  uplinks: null,
};
const version = (object: KubeObject) => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: '1' },
});

/** What becomes of port 80 of a Service with these endpoints, on node n1 in zone a. */
export function balance(
  endpoints: readonly EndpointWords[],
  spec: object = {},
  annotations: Record<string, string> = {},
  others: Partial<
    Pick<BalancedService, 'weights' | 'taken'> & Pick<Place, 'endings' | 'outages' | 'kept'>
  > = {},
): {
  port: PortBalance | undefined;
  refused: readonly string[];
  remarks: readonly string[];
  left: string | null;
  addresses: readonly string[];
} {
  const service = makeLoadBalancer('web', [{ port: 80 }], { spec, annotations });
  const { ports, refused, remarks, left } = balanceService(
    {
      service: services.schema.parse(version(service)),
      slices: [endpointSlices.schema.parse(version(makeEndpoints('web', [{ port: 8080 }], endpoints)))],
      addresses: { ipv4: ['10.77.0.60'], ipv6: [] },
      weights: new Map(),
      ...others,
    },
    'ipv4',
    { ...place, ...others },
  );
  const [port] = ports;
  return { port, refused, remarks, left, addresses: port?.backends.map(({ address }) => address) ?? [] };
}

/** A ready endpoint of a node, unless its conditions say otherwise. */
export const on = (nodeName: string, address: string, conditions = {}) => ({
  addresses: [address],
  nodeName,
  conditions: { ready: true, ...conditions },
});
/** The conditions of one that ends, and still serves. */
export const last = { ready: false, serving: true, terminating: true };
/** Of a Service: pods see their clients. */
export const local = { externalTrafficPolicy: 'Local' };

const marks: Readonly<Record<string, object>> = {
  '': {},
  '-': { ready: false },
  '~': last,
  '!': { ...last, serving: false },
};

/**
 * Pods by a line: `n1/2` is 10.244.1.2 on the node n1, and ready; n0 is no node. Behind it `-` is not ready, `~` ends and still serves, `!` ends
 * and does not.
 */
export function pods(line: string): (Omit<ReturnType<typeof on>, 'nodeName'> & { nodeName?: string })[] {
  return line.split(' ').map((text) => {
    const [, node = '', pod = '', mark = ''] = /^n(\d+)\/(\d+)(.?)$/.exec(text) ?? [];
    const { nodeName, ...rest } = on(`n${node}`, `10.244.${node}.${pod}`, marks[mark]);
    return node === '0' ? rest : { ...rest, nodeName };
  });
}

/** Such a line of these. */
export function toLine(ends: readonly { readonly address: string }[] = []): string {
  return ends.map(({ address }) => address.replace(/^10\.244\.(\d+)\.(\d+)$/, 'n$1/$2')).join(' ');
}

/** What a real API has of the Services of proxied-nodes.ts: all that a person, Kubernetes and vipnat's controller would write. */
import { apiserverPort } from '../../support/network/layout.ts';
import type { ApiCluster } from '../../../tools/lab/control-plane/api-cluster.ts';
import type { ProxiedNode } from './proxied-plan.ts';
import { definitions } from '../../../lib/api/crds.ts';
import type { ApiObject } from '../../../tools/lab/control-plane/api.ts';
import { addressPools, virtualIps, apiGroup, apiVersion } from '../../../lib/api/vipnat.ts';
import { families, type Family } from '../../../lib/net.ts';
import {
  makeLoadBalancer,
  type EndpointWords,
  type PortWords,
  makeEndpoints,
} from '../../support/kube-api/service-objects.ts';

/** What pods listen on, by TCP and UDP. */
export const podPort = apiserverPort;

/** What pods listen on by UDP alone, under another name. */
export const secondPodPort = 7001;

/** Clients that the Service `ranges` lets come: pods. */
const sourceRanges = ['10.244.0.0/16', 'fd00:244::/32'];

/** A pod that ends, and serves until then. */
const ending = { ready: false, serving: true, terminating: true };
const ready = { ready: true };

/** A Service: both protocols at its port, over all pods, as far as it says nothing else. */
interface ServiceWords {
  readonly port: number;
  readonly spec?: object;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Of each pod, by its place. */
  readonly conditions?: (at: number) => object;
  readonly hasPods?: boolean;
}

export const services = {
  web: { port: 80, annotations: { 'vipnat.io/method': 'rr' } },
  hash: { port: 82, annotations: { 'vipnat.io/method': 'hash' } },
  kept: { port: 83, spec: { sessionAffinity: 'ClientIP' } },
  local: { port: 84, spec: { externalTrafficPolicy: 'Local' } },
  ranges: { port: 85, spec: { loadBalancerSourceRanges: sourceRanges } },
  ending: { port: 86, conditions: () => ending },
  'one-ready': { port: 87, conditions: (at) => (at === 0 ? ready : ending) },
  nobody: { port: 88, hasPods: false },
} as const satisfies Readonly<Record<string, ServiceWords>>;

/** The port of `web` whose pods have another one for it. */
export const secondPort = 81;

const collections = {
  namespaces: '/api/v1/namespaces',
  definitions: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  nodes: '/api/v1/nodes',
  services: '/api/v1/namespaces/default/services',
  slices: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
};

export async function writeServices(cluster: ApiCluster, nodes: readonly ProxiedNode[]): Promise<void> {
  const { api } = cluster;
  await api.create(collections.namespaces, {
    ...{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'vipnat-system' } },
  });
  for (const definition of definitions) await api.create(collections.definitions, definition as ApiObject);
  await Promise.all(nodes.map((node) => api.create(collections.nodes, makeNode(node))));
  for (const { path } of [addressPools, virtualIps]) await cluster.waitFor(path);
  const written = await Promise.all(
    Object.entries(services).map(async ([name, words]) => ({
      name,
      uid: await writeService(cluster, name, { words, nodes }),
    })),
  );
  const vips = nodes.flatMap((node) => families.map((family) => node.vips[family]));
  await Promise.all(vips.map((vip) => api.create(virtualIps.path, makeVirtualIp(vip, written))));
}

/** Leaves these nodes' pods ready, and no others, by IPv4 for the Service `web`. */
export async function setReady(
  { api }: ApiCluster,
  nodes: readonly ProxiedNode[],
  readyOnes: readonly ProxiedNode[],
): Promise<void> {
  const conditions = (at: number) => ({ ready: readyOnes.some((node) => node === nodes[at]) });
  const endpoints = listEndpoints({ ...services.web, conditions }, nodes, 'ipv4');
  const path = `${collections.slices}/web-ipv4`;
  const { code, object } = await api.ask({ method: 'PATCH', path, object: { endpoints } });
  if (code !== 200) throw new Error(`the endpoints of web: ${code} ${object.message ?? ''}`);
}

async function writeService(
  { api }: ApiCluster,
  name: string,
  { words, nodes }: { readonly words: ServiceWords; readonly nodes: readonly ProxiedNode[] },
): Promise<string> {
  const { port, spec, annotations = {}, hasPods = true } = words;
  const ports = [
    { name: 't', port },
    { name: 'u', protocol: 'UDP', port },
    ...(name === 'web' ? [{ name: 'second', protocol: 'UDP', port: secondPort }] : []),
  ];
  const dualStack = { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv4', 'IPv6'] };
  const service = makeLoadBalancer(name, ports, { spec: { ...dualStack, ...spec }, annotations });
  const made = (await api.create(collections.services, {
    ...{ ...service, apiVersion: 'v1', kind: 'Service', metadata: { ...service.metadata, name } },
  })) as { readonly metadata: { readonly uid: string } };
  for (const family of hasPods ? families : [])
    await api.create(collections.slices, makeSlice(name, ports, listEndpoints(words, nodes, family)));
  const vips = nodes.flatMap((node) => families.map((family) => node.vips[family]));
  const status = { loadBalancer: { ingress: vips.map((ip) => ({ ip, ipMode: 'VIP' })) } };
  const path = `${collections.services}/${name}/status`;
  const { code, object } = await api.ask({ method: 'PATCH', path, object: { status } });
  if (code !== 200) throw new Error(`the status of ${name}: ${code} ${object.message ?? ''}`);
  return made.metadata.uid;
}

function listEndpoints(
  { conditions = () => ready }: ServiceWords,
  nodes: readonly ProxiedNode[],
  family: Family,
): EndpointWords[] {
  return nodes.map(({ name: nodeName, podAddresses }, at) => {
    return { addresses: [podAddresses[family]], nodeName, conditions: conditions(at) };
  });
}

function makeSlice(service: string, ports: readonly PortWords[], endpoints: readonly EndpointWords[]) {
  const target = ports.map((port) => ({ ...port, port: port.port === secondPort ? secondPodPort : podPort }));
  const slice = makeEndpoints(service, target, endpoints);
  const { name } = slice.metadata;
  const head = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' };
  return { ...slice, ...head, metadata: { ...slice.metadata, name } };
}

function makeVirtualIp(vip: string, given: readonly { readonly name: string; readonly uid: string }[]) {
  return {
    ...{ apiVersion: `${apiGroup}/${apiVersion}`, kind: 'VirtualIP' },
    metadata: { name: vip.replaceAll(':', '-') },
    spec: { pool: 'pool', seat: 0, services: given.map((one) => ({ namespace: 'default', ...one })) },
  };
}

function makeNode({ name, addresses }: ProxiedNode) {
  const own = families.map((family) => ({ type: 'InternalIP', address: addresses[family] }));
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, status: { addresses: own } };
}

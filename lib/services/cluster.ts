/** Nodes, namespaces and ServiceCIDRs: what selectors need of them, and which addresses are a cluster's own. */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { metadata } from './metadata.ts';

const node = z.object({
  metadata,
  /** The ranges of its pods: the first field where the second one is not there. */
  spec: z.nullish(z.object({ podCIDR: z.nullish(z.string()), podCIDRs: z.nullish(z.array(z.string())) })),
  status: z.nullish(
    z.object({ addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))) }),
  ),
});

/** A Node of v1: its labels, its addresses and those of its pods. */
export type Node = z.output<typeof node>;

const namespace = z.object({ metadata });

/** A Namespace of v1: its labels. */
export type Namespace = z.output<typeof namespace>;

const serviceCidr = z.object({
  metadata,
  spec: z.nullish(z.object({ cidrs: z.nullish(z.array(z.string())) })),
});

/** A ServiceCIDR of networking.k8s.io/v1: where ClusterIPs come from. */
export type ServiceCidr = z.output<typeof serviceCidr>;

/** A node has up to 50 images in its status: pages are small. */
const limits = { characters: 64_000_000, page: 200, objects: 20_000 };

/** Source: core/v1, LabelTopologyZone. */
const zoneLabel = 'topology.kubernetes.io/zone';

/** The zone of a node; null for one that has none, or is not there. */
export function readZone(
  node: { readonly metadata: Pick<Node['metadata'], 'labels'> } | null | undefined,
): string | null {
  return node?.metadata.labels?.[zoneLabel] ?? null;
}

/** All nodes. */
export const nodes: Resource<Node> = {
  kind: 'Node',
  path: '/api/v1/nodes',
  selector: '',
  schema: node,
  limits,
};

/** All namespaces. */
export const namespaces: Resource<Namespace> = {
  kind: 'Namespace',
  path: '/api/v1/namespaces',
  selector: '',
  schema: namespace,
  limits,
};

/** All ServiceCIDRs. Kubernetes has them since 1.33. */
export const serviceCidrs: Resource<ServiceCidr> = {
  kind: 'ServiceCIDR',
  path: '/apis/networking.k8s.io/v1/servicecidrs',
  selector: '',
  schema: serviceCidr,
  limits: { ...limits, objects: 1000 },
  mayBeMissing: true,
};

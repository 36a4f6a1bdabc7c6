/** Nodes and namespaces: what selectors need of them. */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { metadata } from './metadata.ts';

const node = z.object({
  metadata,
  status: z.nullish(
    z.object({ addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))) }),
  ),
});

/** A Node of v1: its labels and addresses. */
export type Node = z.output<typeof node>;

const namespace = z.object({ metadata });

/** A Namespace of v1: its labels. */
export type Namespace = z.output<typeof namespace>;

/** A node has up to 50 images in its status: pages are small. */
const limits = { characters: 64_000_000, page: 200, objects: 20_000 };

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

/**
 * The objects that the controller and the balancer share, as the API has them. What is `strict` of a field is not asked of what is
 * read: only the API asks it, by the CustomResourceDefinitions that `definitions.ts` prints of these schemas.
 */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { describeConditions, metadata } from './metadata.ts';
import { apiGroup, apiVersion } from './names.ts';
import { duration, isAdvert, isInOrder, range, rule, strict, vridsPattern } from './strict.ts';

const labelValue = z.string().register(strict, { maxLength: 63 });

/** What `label-selector.ts` refuses otherwise. */
const withValues = {
  properties: { operator: { enum: ['In', 'NotIn'] }, values: { minItems: 1 } },
  required: ['values'],
};
const withoutValues = {
  properties: { operator: { enum: ['Exists', 'DoesNotExist'] }, values: { maxItems: 0 } },
};

const requirement = z
  .object({
    key: z.string().register(strict, { maxLength: 317 }),
    operator: z.string().register(strict, { enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] }),
    values: z.nullish(z.array(labelValue)),
  })
  .register(strict, { anyOf: [withValues, withoutValues] });

/** LabelSelector of meta/v1. An empty one selects all. */
const labelSelector = z.object({
  matchLabels: z.nullish(z.record(z.string(), labelValue)),
  matchExpressions: z.nullish(z.array(requirement)),
});

/** Which objects are meant, by their labels. */
export type LabelSelector = z.output<typeof labelSelector>;

/** A VRRP instance. The controller names seats, the balancers hold them. An older controller wrote some with fewer fields. */
const seat = z
  .object({
    /** From 0, once in a pool. `POOL/INDEX` names the seat. */
    index: z.number(),
    /** Of the seat's family, and of no network: see `anchors.ts`. Whoever has it on the interface lo holds the seat. */
    anchor: z._default(z.string(), '').register(strict, {
      description: 'An address that only the node of the seat has, on its interface lo.',
    }),
    vrid: z._default(z.number(), 0).register(strict, {
      default: undefined,
      description: 'The virtual_router_id.',
    }),
    /** An address of the pool: adverts take the interface in whose subnet it is, unless the pool names one. */
    network: z._default(z.string(), '').register(strict, {
      description: 'Adverts go to the network of this address.',
    }),
    /** The names of the nodes that may hold it, the one that shall first. */
    nodes: z.array(z.string()),
  })
  .register(strict, { required: ['index', 'anchor', 'vrid', 'network', 'nodes'] });

/** A part of a pool's addresses of one family that one node holds at a time. */
export type Seat = z.output<typeof seat>;

const poolSpec = z.object({
  addresses: z.array(range).register(strict, {
    description: 'Addresses for Services: 10.0.9.10-10.0.9.99, fd00:9::/120, or one address.',
    minItems: 1,
    maxItems: 64,
  }),
  autoAssign: z._default(z.boolean(), true).register(strict, {
    description: 'Whether Services get its addresses if they name neither a pool nor an address.',
  }),
  priority: z._default(z.number().register(strict, { format: 'int32' }), 0).register(strict, {
    description: 'The pool with the highest priority gives addresses first.',
  }),
  serviceSelector: z.nullish(labelSelector).register(strict, {
    description: 'The Services that may get its addresses. All when it is empty.',
  }),
  namespaceSelector: z.nullish(labelSelector).register(strict, {
    description: 'The namespaces whose Services may get its addresses. All when it is empty.',
  }),
  nodeSelector: z.nullish(labelSelector).register(strict, {
    description: 'The nodes that may hold its addresses. All when it is empty.',
  }),
  interface: z._default(z.string(), 'auto').register(strict, {
    maxLength: 15,
    pattern: String.raw`^[^\s/]+$`,
    description: 'The interface that gets the addresses; auto takes the interface in their subnet.',
  }),
  seats: z._default(z.number(), 4).register(strict, {
    minimum: 1,
    maximum: 32,
    description: 'In how many parts the addresses of each family are held, each by one node at a time.',
  }),
  vrids: z.nullish(z.string()).register(strict, {
    maxLength: 7,
    pattern: vridsPattern,
    description: 'The virtual_router_ids of its seats, such as 51-60. By default, free ones are chosen.',
    'x-kubernetes-validations': [isInOrder],
  }),
  advert: z._default(duration, '300ms').register(strict, {
    description: 'The time between two VRRP adverts of a seat.',
    'x-kubernetes-validations': [isAdvert],
  }),
  reuseAfter: z._default(duration, '60s').register(strict, {
    description: 'How long the pool keeps a returned address while other addresses are free.',
  }),
  shareAcrossNamespaces: z._default(z.boolean(), false).register(strict, {
    description: 'Whether Services of different namespaces may share an address.',
  }),
});

const pool = z.object({
  metadata,
  spec: poolSpec,
  status: z.nullish(
    z.object({
      seats: z.nullish(z.array(seat)).register(strict, {
        description: 'The seats: their virtual_router_ids, and the nodes that may hold them, in order.',
      }),
      conditions: describeConditions('Accepted, Available and Seated.'),
    }),
  ),
});

/** Addresses that Services may get. A person chooses its name. */
export type AddressPool = z.output<typeof pool>;

const user = z.object({ namespace: z.string(), name: z.string(), uid: z.string() });

/** A Service that has an address. A new one of the same name has another uid. */
export type AddressUser = z.output<typeof user>;

const absentNode = z.object({ node: z.string(), renewal: z.string() });

/** A node that did not hear of an address. */
export type AbsentNode = z.output<typeof absentNode>;

const virtualIpSpec = z.object({
  pool: z.string().register(strict, {
    minLength: 1,
    description: 'The AddressPool that has the address.',
  }),
  seat: z.number().register(strict, {
    minimum: 0,
    description: 'The index of the seat that holds the address. The status of the pool has the seats.',
  }),
  shareKey: z._default(z.string(), '').register(strict, {
    description: 'Services with the same key may share the address.',
  }),
  services: z.array(user).register(strict, {
    maxItems: 1000,
    description: 'Services that have the address. The list is empty while the address waits.',
  }),
  /**
   * Balancers serve none of them. Each stays here until every living node has forgotten it and its status no longer has the
   * address. While somebody is here, no further Service gets the address.
   */
  leaving: z._default(z.array(user), []).register(strict, {
    maxItems: 1000,
    description: 'Services that give the address back. No living node serves them.',
  }),
  formerNamespaces: z._default(z.array(labelValue), []).register(strict, {
    maxItems: 1000,
    description:
      'The namespaces of Services that gave the address back: until reuseAfter is over, only these can name it.',
  }),
  /** With the last renewal that was heard. As long as no other one is heard, such a node does not serve the address. */
  absent: z._default(z.array(absentNode), []).register(strict, {
    maxItems: 5000,
    description: 'Nodes whose Lease was over when the address was given: they do not serve it.',
  }),
});

const virtualIpStatus = z.object({
  holder: z.nullish(z.string()).register(strict, {
    description: 'The node that holds the address, as its balancer reports.',
  }),
  mode: z.nullish(z.string()).register(strict, {
    description: 'How that node balances the address: direct or kube-proxy.',
  }),
  releasedAt: z.nullish(z.string()).register(strict, {
    format: 'date-time',
    description: 'Since when no Service has the address.',
  }),
  conditions: describeConditions('Programmed, Announced, AddressInUse, Withdrawn and Terminating.'),
});

/** What is asked of an object with its name: the address that it stands for. */
const isNamedForAddress = rule(
  "isIP(self.metadata.name) || isIP(self.metadata.name.replace('-', ':'))",
  'the name must be an address, with - in place of :',
);

const virtualIp = z
  .object({ metadata, spec: virtualIpSpec, status: z.nullish(virtualIpStatus) })
  .register(strict, { 'x-kubernetes-validations': [isNamedForAddress] });

/** An address that is given. Its name is the address (`address-name.ts`), so that one exists at most. */
export type VirtualIp = z.output<typeof virtualIp>;

/** As many as a pool of a /16 has. */
const maxVirtualIps = 65_536;

/** Bounds of memory, not of use. */
const limits = { characters: 32_000_000, page: 500 };

/** The definitions of these kinds are vipnat's own. */
const absence = 'apply what vipnat manifest services prints';

/** All pools. */
export const addressPools: Resource<AddressPool> = {
  kind: 'AddressPool',
  path: `/apis/${apiGroup}/${apiVersion}/addresspools`,
  selector: '',
  schema: pool,
  limits: { ...limits, objects: 1000 },
  absence,
};

/** All addresses that are given, or wait to be given again. */
export const virtualIps: Resource<VirtualIp> = {
  kind: 'VirtualIP',
  path: `/apis/${apiGroup}/${apiVersion}/virtualips`,
  selector: '',
  schema: virtualIp,
  limits: { ...limits, objects: maxVirtualIps },
  // A Service may have left it: a node that says it has heard of that serves it no more.
  dropsUnreadable: true,
  absence,
};

/**
 * The objects that the controller and the balancer share, as the API has them. Their schemas in the API
 * (CustomResourceDefinitions) are stricter: see `definitions.ts`. What is read here must not fail for an object that a later
 * version wrote, so that a rollback works.
 */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { condition, metadata } from './metadata.ts';
import { apiGroup, apiVersion } from './names.ts';

/** LabelSelector of meta/v1. An empty one selects all. */
const labelSelector = z.object({
  matchLabels: z.nullish(z.record(z.string(), z.string())),
  matchExpressions: z.nullish(
    z.array(z.object({ key: z.string(), operator: z.string(), values: z.nullish(z.array(z.string())) })),
  ),
});

/** Which objects are meant, by their labels. */
export type LabelSelector = z.output<typeof labelSelector>;

/** A VRRP instance. The controller names seats, the balancers hold them. */
const seat = z.object({
  /** From 0, once in a pool. `POOL/INDEX` names the seat. */
  index: z.number(),
  /** Of the seat's family, and of no network: see `anchors.ts`. Whoever has it on the interface lo holds the seat. */
  anchor: z._default(z.string(), ''),
  /** Its virtual_router_id. */
  vrid: z._default(z.number(), 0),
  /** An address of the pool: adverts take the interface in whose subnet it is, unless the pool names one. */
  network: z._default(z.string(), ''),
  /** The names of the nodes that may hold it, the one that shall first. */
  nodes: z.array(z.string()),
});

/** A part of a pool's addresses of one family that one node holds at a time. */
export type Seat = z.output<typeof seat>;

const pool = z.object({
  metadata,
  spec: z.object({
    /** `10.0.9.10-10.0.9.99`, `fd00:9::/120` or one address. */
    addresses: z.array(z.string()),
    autoAssign: z._default(z.boolean(), true),
    /** The higher first. */
    priority: z._default(z.number(), 0),
    serviceSelector: z.nullish(labelSelector),
    namespaceSelector: z.nullish(labelSelector),
    /** Of the nodes that may hold the pool's addresses. */
    nodeSelector: z.nullish(labelSelector),
    /** The name of the interface that gets the addresses, or `auto`: the one whose subnet has them. */
    interface: z._default(z.string(), 'auto'),
    /** For each family. */
    seats: z._default(z.number(), 4),
    /** The virtual_router_ids of seats: `51-60`, or `51`. */
    vrids: z.nullish(z.string()),
    /** A Go duration, of whole milliseconds: how often the holder says that it lives. */
    advert: z._default(z.string(), '300ms'),
    /** Whether Services of different namespaces may share an address. */
    shareAcrossNamespaces: z._default(z.boolean(), false),
    /** A Go duration: for how long an address that was given back goes to nobody while others are free. */
    reuseAfter: z._default(z.string(), '60s'),
  }),
  status: z.nullish(
    z.object({
      seats: z.nullish(z.array(seat)),
      conditions: z.nullish(z.array(condition)),
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

const virtualIp = z.object({
  metadata,
  spec: z.object({
    pool: z.string(),
    /** The index of the seat that holds it. */
    seat: z.number(),
    shareKey: z._default(z.string(), ''),
    /** Who has it: nobody while it waits until it may be given again. */
    services: z.array(user),
    /**
     * Who gives it back: balancers serve none of them. Each stays here until every living node has forgotten it and its status no
     * longer has the address. While somebody is here, no further Service gets the address.
     */
    leaving: z._default(z.array(user), []),
    /** The namespaces of those that gave it back. Until it may be given again, no Service of another namespace can name it. */
    formerNamespaces: z._default(z.array(z.string()), []),
    /**
     * Nodes whose Lease was over when the address was given, with the last renewal that was heard. As long as no other one is heard,
     * such a node does not serve the address.
     */
    absent: z._default(z.array(absentNode), []),
  }),
  status: z.nullish(
    z.object({
      holder: z.nullish(z.string()),
      mode: z.nullish(z.string()),
      /** RFC 3339: since when nobody has it. */
      releasedAt: z.nullish(z.string()),
      /** Programmed, Announced, AddressInUse, Withdrawn, Terminating. */
      conditions: z.nullish(z.array(condition)),
    }),
  ),
});

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

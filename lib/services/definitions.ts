/**
 * The CustomResourceDefinitions, as they are installed. They refuse what can be judged from one object alone; what takes two, such as
 * pools that overlap, the controller says in a condition. Their rules need the library for addresses: Kubernetes 1.31.
 */
import { apiGroup, apiVersion } from './names.ts';
import {
  conditions,
  duration,
  isAdvert,
  isInOrder,
  list,
  object,
  range,
  rule,
  type Schema,
  selector,
  text,
  vrid,
} from './schemas.ts';

const poolSpec = object(
  {
    addresses: list(range, {
      description: 'Addresses for Services: 10.0.9.10-10.0.9.99, fd00:9::/120, or one address.',
      minItems: 1,
      maxItems: 64,
    }),
    autoAssign: {
      type: 'boolean',
      default: true,
      description: 'Whether Services get its addresses if they name neither a pool nor an address.',
    },
    priority: {
      type: 'integer',
      format: 'int32',
      default: 0,
      description: 'The pool with the highest priority gives addresses first.',
    },
    serviceSelector: selector('The Services that may get its addresses. All when it is empty.'),
    namespaceSelector: selector('The namespaces whose Services may get its addresses. All when it is empty.'),
    nodeSelector: selector('The nodes that may hold its addresses. All when it is empty.'),
    interface: text({
      default: 'auto',
      maxLength: 15,
      pattern: String.raw`^[^\s/]+$`,
      description: 'The interface that gets the addresses; auto takes the interface in their subnet.',
    }),
    seats: {
      type: 'integer',
      default: 4,
      minimum: 1,
      maximum: 32,
      description: 'In how many parts the addresses of each family are held, each by one node at a time.',
    },
    vrids: text({
      maxLength: 7,
      pattern: `^${vrid}(-${vrid})?$`,
      description: 'The virtual_router_ids of its seats, such as 51-60. By default, free ones are chosen.',
      'x-kubernetes-validations': [isInOrder],
    }),
    advert: duration({
      default: '300ms',
      description: 'The time between two VRRP adverts of a seat.',
      'x-kubernetes-validations': [isAdvert],
    }),
    reuseAfter: duration({
      default: '60s',
      description: 'How long the pool keeps a returned address while other addresses are free.',
    }),
    shareAcrossNamespaces: {
      type: 'boolean',
      default: false,
      description: 'Whether Services of different namespaces may share an address.',
    },
  },
  { required: ['addresses'] },
);

const poolStatus = object({
  seats: list(
    object(
      {
        index: { type: 'integer' },
        anchor: text({ description: 'An address that only the node of the seat has, on its interface lo.' }),
        vrid: { type: 'integer', description: 'The virtual_router_id.' },
        network: text({ description: 'Adverts go to the network of this address.' }),
        nodes: list(text()),
      },
      { required: ['index', 'anchor', 'vrid', 'network', 'nodes'] },
    ),
    { description: 'The seats: their virtual_router_ids, and the nodes that may hold them, in order.' },
  ),
  conditions: conditions('Accepted, Available and Seated.'),
});

const users = list(
  object({ namespace: text(), name: text(), uid: text() }, { required: ['namespace', 'name', 'uid'] }),
  { maxItems: 1000 },
);

const absentNodes = list(object({ node: text(), renewal: text() }, { required: ['node', 'renewal'] }), {
  maxItems: 5000,
});

const virtualIpSpec = object(
  {
    pool: text({ minLength: 1, description: 'The AddressPool that has the address.' }),
    seat: {
      type: 'integer',
      minimum: 0,
      description: 'The index of the seat that holds the address. The status of the pool has the seats.',
    },
    shareKey: text({ description: 'Services with the same key may share the address.' }),
    services: {
      ...users,
      description: 'Services that have the address. The list is empty while the address waits.',
    },
    leaving: { ...users, description: 'Services that give the address back. No living node serves them.' },
    formerNamespaces: {
      ...list(text({ maxLength: 63 }), { maxItems: 1000 }),
      description:
        'The namespaces of Services that gave the address back: until reuseAfter is over, only these can name it.',
    },
    absent: {
      ...absentNodes,
      description: 'Nodes whose Lease was over when the address was given: they do not serve it.',
    },
  },
  { required: ['pool', 'seat', 'services'] },
);

const virtualIpStatus = object({
  holder: text({ description: 'The node that holds the address, as its balancer reports.' }),
  mode: text({ description: 'How that node balances the address: direct or kube-proxy.' }),
  releasedAt: text({ format: 'date-time', description: 'Since when no Service has the address.' }),
  conditions: conditions('Programmed, Announced, AddressInUse, Withdrawn and Terminating.'),
});

/** A name of a cluster, as `isClusterName` judges it. */
const clusterName = '^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$';

/** Source: RFC 1123, as Kubernetes reads it for the names of most objects. */
const objectName = String.raw`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`;

/** Its objects on the device have the old mark, or are another device's: nobody would find them. */
const isKept = rule('self == oldSelf', 'cannot be changed: make another LoadBalancerDevice');

const deviceSpec = object(
  {
    driver: text({
      maxLength: 40,
      pattern: '^[a-z0-9-]+$',
      description: 'The driver: alteon or haproxy.',
      'x-kubernetes-validations': [isKept],
    }),
    cluster: text({
      pattern: clusterName,
      description:
        'The name of this cluster in the names of its objects on the device. No two clusters share one.',
      'x-kubernetes-validations': [isKept],
    }),
    units: list(text({ minLength: 1, pattern: String.raw`^\S+$` }), {
      description: 'Addresses for the management of the device, each a URL or HOST:PORT. A pair has two.',
      minItems: 1,
      maxItems: 2,
    }),
    credentialsSecret: object(
      { name: text({ maxLength: 253, pattern: objectName }) },
      {
        required: ['name'],
        description:
          'A Secret in the namespace of vipnat with the keys username and password. ca.crt signs the certificates of the units.',
      },
    ),
    targets: text({
      enum: ['pods', 'nodePorts'],
      default: 'nodePorts',
      description: 'Targets of connections. With pods, the device must have routes to pods.',
    }),
    addresses: list(range, {
      description: 'Addresses for Services on this device, as an AddressPool has them.',
      minItems: 1,
      maxItems: 64,
    }),
    callsPerSecond: {
      type: 'integer',
      default: 20,
      minimum: 1,
      maximum: 1000,
      description: 'How many requests a second vipnat sends to the device at most.',
    },
    options: object(
      {},
      {
        additionalProperties: text({ maxLength: 1024 }),
        maxProperties: 64,
        description: 'Options of the driver.',
      },
    ),
  },
  { required: ['driver', 'cluster', 'units', 'addresses'] },
);

const deviceStatus = object({
  units: list(
    object(
      {
        unit: text(),
        role: text({ description: 'The role that the unit reports.' }),
        isInSync: {
          type: 'boolean',
          nullable: true,
          description: 'Whether it has what the active unit has.',
        },
        why: text({ maxLength: 1024 }),
      },
      { required: ['unit', 'role'] },
    ),
    { description: 'The units, as they were seen last.' },
  ),
  balancers: {
    type: 'integer',
    nullable: true,
    description: 'How many Services the device has something of.',
  },
  foreignChanges: list(text({ maxLength: 1024 }), {
    description: 'Changes of other users on the device that wait to be applied: the first 10.',
  }),
  draining: list(
    object(
      {
        service: text({ description: 'NAMESPACE/NAME.' }),
        member: text({ description: 'ADDRESS:PORT.' }),
        since: text({ format: 'date-time' }),
        sessions: {
          type: 'integer',
          nullable: true,
          description: 'Open connections, as the device counted them last.',
        },
      },
      { required: ['service', 'member', 'since'] },
    ),
    { description: 'Members that get no new connections: the 100 that have drained for longest.' },
  ),
  observedGeneration: { type: 'integer', format: 'int64', description: 'The generation that this is about.' },
  conditions: conditions('Ready.'),
});

/** Classes and finalizers have the name after a slash. `vipnat.io/lb` is the class of the nodes. */
const isNameOfDevice = rule(
  "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.') && self.metadata.name != 'lb'",
  'the name must have 63 characters at most and no dot, and must not be lb',
);

/** What is asked of an object with its name: the address that it stands for. */
const isNamedForAddress = rule(
  "isIP(self.metadata.name) || isIP(self.metadata.name.replace('-', ':'))",
  'the name must be an address, with - in place of :',
);

interface Kind {
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly spec: Schema;
  readonly status: Schema;
  readonly rules: readonly object[];
  readonly columns: readonly object[];
}

const column = (name: string, jsonPath: string, type = 'string') => ({ name, type, jsonPath });
const age = column('Age', '.metadata.creationTimestamp', 'date');
const conditionColumn = (type: string) => column(type, `.status.conditions[?(@.type=="${type}")].status`);

const kinds: readonly Kind[] = [
  {
    kind: 'AddressPool',
    plural: 'addresspools',
    shortNames: ['pool'],
    spec: poolSpec,
    status: poolStatus,
    rules: [],
    columns: [
      column('Addresses', '.spec.addresses'),
      column('Auto', '.spec.autoAssign', 'boolean'),
      ...['Accepted', 'Available', 'Seated'].map(conditionColumn),
      age,
    ],
  },
  {
    kind: 'VirtualIP',
    plural: 'virtualips',
    shortNames: ['vip'],
    spec: virtualIpSpec,
    status: virtualIpStatus,
    rules: [isNamedForAddress],
    columns: [
      column('Pool', '.spec.pool'),
      column('Namespace', '.spec.services[0].namespace'),
      column('Service', '.spec.services[0].name'),
      column('Seat', '.spec.seat', 'integer'),
      conditionColumn('Programmed'),
      conditionColumn('Announced'),
      column('Holder', '.status.holder'),
      column('Released', '.status.releasedAt', 'date'),
      age,
    ],
  },
  {
    kind: 'LoadBalancerDevice',
    plural: 'loadbalancerdevices',
    shortNames: ['lbdevice'],
    spec: deviceSpec,
    status: deviceStatus,
    rules: [isNameOfDevice],
    columns: [
      column('Driver', '.spec.driver'),
      column('Targets', '.spec.targets'),
      column('Active', '.status.units[?(@.role=="active")].unit'),
      column('Services', '.status.balancers', 'integer'),
      conditionColumn('Ready'),
      age,
    ],
  },
];

/** All of them, as `apiextensions.k8s.io/v1` takes them. */
export const definitions: readonly object[] = kinds.map(
  ({ kind, plural, shortNames, spec, status, rules, columns }) => ({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${apiGroup}` },
    spec: {
      group: apiGroup,
      scope: 'Cluster',
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List`, shortNames },
      versions: [
        {
          name: apiVersion,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: object(
              { spec, status },
              { required: ['spec'], ...(rules.length === 0 ? {} : { 'x-kubernetes-validations': rules }) },
            ),
          },
        },
      ],
    },
  }),
);

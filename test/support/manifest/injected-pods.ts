/** New pods, and what a policy of the API server and the webhook make of them: the same. */

const ownGate = 'vipnat.io/load-balancer-ready';
const otherGate = 'example.com/ready';

const gate = (conditionType: string) => ({ conditionType });
const preStop = { exec: { command: ['true'] } };
const postStart = { exec: { command: ['true'] } };
const ours = { type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb' };

/** What a namespace has that asks for gates, by the Services' names. */
export const injectingServices: Readonly<Record<string, object>> = {
  web: { ...ours, selector: { app: 'web' } },
  twice: { ...ours, selector: { app: 'web', tier: 'front' } },
  stranger: { type: 'LoadBalancer', loadBalancerClass: 'example.com/lb', selector: { app: 'stranger' } },
  device: { ...ours, loadBalancerClass: 'vipnat.io/edge', selector: { app: 'device' } },
  inner: { selector: { app: 'inner' } },
  role: { selector: { role: 'inner' } },
  name: { type: 'ExternalName', externalName: 'example.com', selector: { app: 'name' } },
  everything: ours,
};

/** Of a namespace that asks for gates, and of one that does not. */
export const injectedNamespaces = { gates: { 'vipnat.io/gates': 'enabled' }, none: {} };

/** The containers of a pod that says no more. */
export const plainContainers = [{ name: 'nginx', image: 'nginx' }];

/** A new pod; of what our Service selects unless it says otherwise. */
export interface InjectedPod {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: object;
  readonly namespace?: keyof typeof injectedNamespaces;
}

/** What a pod is like afterwards: its gates, the preStop of each container, null for none, and the seconds that it has to end. */
export interface Injected {
  readonly gates: readonly string[];
  readonly pauses: readonly (object | null)[];
  readonly grace: number;
}

interface PodSpec {
  readonly terminationGracePeriodSeconds?: number;
  readonly readinessGates?: readonly { readonly conditionType: string }[];
  readonly containers: readonly { readonly lifecycle?: { readonly preStop?: object } }[];
}

export function readInjected(spec: object): Injected {
  const { readinessGates = [], containers, terminationGracePeriodSeconds: grace = 30 } = spec as PodSpec;
  return {
    gates: readinessGates.map(({ conditionType }) => conditionType),
    pauses: containers.map(({ lifecycle }) => lifecycle?.preStop ?? null),
    grace,
  };
}

/** An object as a client sends it. */
export function toPod({ labels = { app: 'web' }, annotations, spec = {} }: InjectedPod): {
  readonly spec: object;
  readonly [field: string]: unknown;
} {
  const metadata = {
    name: 'tried',
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
  };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers: plainContainers, ...spec } };
}

const pause = { sleep: { seconds: 2 } };
const other = { name: 'log', image: 'log' };
const unchanged: Injected = { gates: [], pauses: [null], grace: 30 };
const changed: Injected = { gates: [ownGate], pauses: [pause], grace: 32 };
const grace = (terminationGracePeriodSeconds: number) => ({ spec: { terminationGracePeriodSeconds } });
const withLifecycle = (lifecycle: object) => ({ ...plainContainers[0], lifecycle });

export const injectionCases: readonly [title: string, InjectedPod, Injected][] = [
  ['a pod of our Service', {}, changed],
  ['a pod of two', { labels: { app: 'web', tier: 'front' } }, changed],
  [
    'one with a gate of others',
    { spec: { readinessGates: [gate(otherGate)] } },
    { ...changed, gates: [otherGate, ownGate] },
  ],
  ['one with our gate', { spec: { readinessGates: [gate(ownGate)] } }, changed],
  [
    'one of whose containers one says what it does before it ends',
    { spec: { containers: [withLifecycle({ preStop }), other] } },
    { ...changed, pauses: [preStop, pause] },
  ],
  [
    'one whose containers all say it',
    { spec: { containers: [withLifecycle({ preStop })] } },
    { ...changed, pauses: [preStop], grace: 30 },
  ],
  [
    'one that has its pause, and a container that was added afterwards',
    { spec: { containers: [withLifecycle({ preStop: pause }), other], terminationGracePeriodSeconds: 32 } },
    { ...changed, pauses: [pause, pause] },
  ],
  [
    'one whose container says what it does when it starts',
    { spec: { containers: [withLifecycle({ postStart })] } },
    changed,
  ],
  ['one that is to end at once', grace(0), { ...changed, pauses: [null], grace: 0 }],
  ['one that has a second to end', grace(1), { ...changed, grace: 3 }],
  ['one that has three seconds to end', grace(3), { ...changed, grace: 5 }],
  ["a pod of a device's Service", { labels: { app: 'device' } }, changed],
  ['a pod of a ClusterIP', { labels: { app: 'inner' } }, { ...changed, gates: [] }],
  ["a pod of others' load balancer", { labels: { app: 'stranger' } }, { ...changed, gates: [] }],
  ['a pod of a ClusterIP and of our Service', { labels: { app: 'web', role: 'inner' } }, changed],
  ['a pod that a name of elsewhere selects', { labels: { app: 'name' } }, unchanged],
  ['a pod without labels', { labels: {} }, unchanged],
  ['a pod that ends by itself', { spec: { restartPolicy: 'Never' } }, unchanged],
  ['a pod of another namespace', { namespace: 'none' }, unchanged],
];

/** Finalizers of a Service without a class, and whether a controller has taken it. */
export const takenCases: readonly [finalizers: readonly string[], isTaken: boolean][] = [
  [['example.com/other', 'device.vipnat.io.example/edge'], false],
  [['example.com/other', 'vipnat.io/load-balancer'], true],
  [['device.vipnat.io/edge'], true],
];

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
  inner: { selector: { app: 'inner' } },
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

/** What a pod is like afterwards: its gates, and the preStop of each container, null for none. */
export interface Injected {
  readonly gates: readonly string[];
  readonly pauses: readonly (object | null)[];
}

interface PodSpec {
  readonly readinessGates?: readonly { readonly conditionType: string }[];
  readonly containers: readonly { readonly lifecycle?: { readonly preStop?: object } }[];
}

/** Reads it from the spec of a pod. */
export function readInjected(spec: object): Injected {
  const { readinessGates = [], containers } = spec as PodSpec;
  return {
    gates: readinessGates.map(({ conditionType }) => conditionType),
    pauses: containers.map(({ lifecycle }) => lifecycle?.preStop ?? null),
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

/** Title, pod, its gates, and the preStop of each container. */
export const injectionCases: readonly [string, InjectedPod, Injected['gates'], Injected['pauses']][] = [
  ['a pod of our Service', {}, [ownGate], [pause]],
  ['a pod of two', { labels: { app: 'web', tier: 'front' } }, [ownGate], [pause]],
  [
    'one with a gate of others',
    { spec: { readinessGates: [gate(otherGate)] } },
    [otherGate, ownGate],
    [pause],
  ],
  ['one with our gate', { spec: { readinessGates: [gate(ownGate)] } }, [ownGate], [pause]],
  [
    'one of whose containers one says what it does before it ends',
    { spec: { containers: [{ ...plainContainers[0], lifecycle: { preStop } }, other] } },
    [ownGate],
    [preStop, pause],
  ],
  [
    'one whose container says what it does when it starts',
    { spec: { containers: [{ ...plainContainers[0], lifecycle: { postStart } }] } },
    [ownGate],
    [pause],
  ],
  ['one that has a second to end', { spec: { terminationGracePeriodSeconds: 1 } }, [ownGate], [null]],
  ['one that has three seconds to end', { spec: { terminationGracePeriodSeconds: 3 } }, [ownGate], [pause]],
  ['a pod of a ClusterIP', { labels: { app: 'inner' } }, [], [null]],
  ["a pod of others' load balancer", { labels: { app: 'stranger' } }, [], [null]],
  ['a pod without labels', { labels: {} }, [], [null]],
  ['a pod that ends by itself', { spec: { restartPolicy: 'Never' } }, [], [null]],
  ['a pod of another namespace', { namespace: 'none' }, [], [null]],
];

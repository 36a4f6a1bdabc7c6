import { type Comment, type Manifest, nestComments, type Part } from './yaml.ts';

/** What an object is, as it begins. */
export interface ObjectHead {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** null for an object of the whole cluster. */
  readonly namespace: string | null;
}

/** The label of everything that belongs to what has this name. */
export function toLabels(name: string): object {
  return { 'app.kubernetes.io/name': name };
}

/** An object with its label, its further fields, and what people are told beside it. */
export function toManifest(
  { apiVersion, kind, name, namespace }: ObjectHead,
  fields: object,
  comments: readonly Comment[] = [],
): Manifest {
  const metadata = { name, ...(namespace === null ? {} : { namespace }), labels: toLabels(name) };
  return { object: { apiVersion, kind, metadata, ...fields }, comments };
}

/** A DaemonSet with this spec of its pods: one node after the other gets a new pod. `comments` are for what is beside that spec. */
export function toDaemonSet(
  { name, namespace }: Pick<ObjectHead, 'name' | 'namespace'>,
  pod: Part,
  comments: readonly Comment[] = [],
): Manifest {
  const labels = toLabels(name);
  const spec = {
    selector: { matchLabels: labels },
    // A pod that ends within that time stops the roll-out at its node. A balancer's seats have moved by then.
    minReadySeconds: 10,
    updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } },
    template: { metadata: { labels }, spec: pod.value },
  };
  const head = { apiVersion: 'apps/v1', kind: 'DaemonSet', name, namespace };
  return toManifest(head, { spec }, [
    ...comments,
    ...nestComments(['spec', 'template', 'spec'], pod.comments),
  ]);
}

/** The group of admission policies and webhooks. */
export const admission = 'admissionregistration.k8s.io/v1';

/** An admission policy with a binding for the whole cluster. */
export interface AdmissionPolicy {
  readonly kind: 'ValidatingAdmissionPolicy' | 'MutatingAdmissionPolicy';
  readonly name: string;
  readonly purpose: string;
  readonly spec: object;
  /** What the binding says beside the policy's name. */
  readonly binding: object;
}

/** The policy, and then its binding. */
export function toPolicyManifests({ kind, name, purpose, spec, binding }: AdmissionPolicy): Manifest[] {
  const head = { apiVersion: admission, name, namespace: null };
  return [
    toManifest({ ...head, kind }, { spec }, [{ path: ['spec'], text: purpose }]),
    toManifest({ ...head, kind: `${kind}Binding` }, { spec: { policyName: name, ...binding } }),
  ];
}

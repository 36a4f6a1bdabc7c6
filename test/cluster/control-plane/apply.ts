import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import type { KubernetesObject } from '../../support/manifest/printing.ts';
import type { ApiAnswer, ApiQuestion } from '../../../tools/lab/control-plane/api.ts';

/** A lab, or whatever else has a real apiserver. */
interface Cluster {
  readonly api: { ask(question: ApiQuestion): Promise<ApiAnswer> };
}

/** What `vipnat manifest` prints for a lab's VIP. */
export async function printOn(lab: Lab, ...words: readonly string[]): Promise<string> {
  const command = vipnatCommand('manifest', ...words, '--vip', lab.vip);
  const { exitCode, stdout, stderr } = await lab.machine('client').run(command);
  if (exitCode !== 0) throw new Error(stderr);
  return stdout;
}

function locateCollection({ apiVersion, kind, metadata }: KubernetesObject): string {
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const isPlaced = (metadata.namespace as string | undefined) !== undefined;
  const place = isPlaced ? `/namespaces/${metadata.namespace}` : '';
  return `${group}${place}/${`${kind.toLowerCase()}s`.replace(/ys$/, 'ies')}`;
}

/**
 * Has the real kube-apiserver look at an object as if it were to be created: defaults, validation, admission, and no
 * field that it does not know. Nothing is stored.
 */
export async function dryRun(lab: Lab, object: KubernetesObject): Promise<ApiAnswer> {
  const path = `${locateCollection(object)}?dryRun=All&fieldValidation=Strict`;
  return await lab.api.ask({ method: 'POST', path, object });
}

/** A static pod as the kubelet shows it to the API: it may then refer to nothing that only the API has. */
export function toMirrorPod(pod: KubernetesObject, node: string): KubernetesObject {
  const { name, ...metadata } = pod.metadata;
  const mirrored = { annotations: { 'kubernetes.io/config.mirror': 'a hash of the file' } };
  return {
    ...pod,
    metadata: { ...metadata, ...mirrored, name: `${name}-${node}` },
    spec: { ...(pod['spec'] as object), nodeName: node },
  };
}

/** Creates objects for good. Rejects at the first that is refused. */
export async function apply({ api }: Cluster, objects: readonly KubernetesObject[]): Promise<void> {
  for (const object of objects) {
    const path = `${locateCollection(object)}?fieldValidation=Strict`;
    const { code, object: answer } = await api.ask({ method: 'POST', path, object });
    if (code !== 201)
      throw new Error(`${object.kind} ${object.metadata.name}: ${code} ${answer.message ?? ''}`);
  }
}

/** A token of a service account, as a pod of it is given one. */
export async function requestToken({ api }: Cluster, namespace: string, account: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
  const { object } = await api.ask({ method: 'POST', path, object: tokenRequest });
  const { token = '' } = (object['status'] ?? {}) as { token?: string };
  if (token === '') throw new Error(`no token for ${account}: ${object.message ?? ''}`);
  return token;
}

const tokenRequest = {
  apiVersion: 'authentication.k8s.io/v1',
  kind: 'TokenRequest',
  spec: { expirationSeconds: 3600 },
};

/** A rule of a role, in which every list can be missing. */
export type Rule = Readonly<Partial<Record<(typeof ruleFields)[number], readonly string[]>>>;

const ruleFields = ['verbs', 'apiGroups', 'resources', 'resourceNames', 'nonResourceURLs'] as const;

/** A rule as text, by which rules are compared. */
export function formatRule(rule: Rule): string {
  return ruleFields.map((field) => `${field} ${(rule[field] ?? []).join()}`).join('; ');
}

/** What a token's holder may do in a namespace: all rules, as the apiserver itself reviews them, as text and sorted. */
export async function listRights({ api }: Cluster, token: string, namespace: string): Promise<string[]> {
  const { object } = await api.ask({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews',
    object: { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } },
    token,
  });
  const { resourceRules, nonResourceRules } = object['status'] as Record<string, Rule[]>;
  return [...(resourceRules ?? []), ...(nonResourceRules ?? [])].map(formatRule).sort();
}

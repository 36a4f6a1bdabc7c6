import { toManifest } from './objects.ts';
import { type Manifest } from './yaml.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** A rule of a group of the API: resources and verbs as words, limited to objects of these names if there are any. */
export function allow(group: string, resources: string, verbs: string, names: readonly string[] = []): Rule {
  return {
    apiGroups: [group],
    resources: resources.split(' '),
    ...(names.length === 0 ? {} : { resourceNames: names }),
    verbs: verbs.split(' '),
  };
}

/** Rules, and what they are for. */
export interface Rights {
  readonly purpose: string;
  readonly rules: readonly Rule[];
}

/** A service account. */
export interface Account {
  readonly name: string;
  readonly namespace: string;
}

/** The account itself. */
export function toAccount(account: Account): Manifest {
  return toManifest({ apiVersion: 'v1', kind: 'ServiceAccount', ...account }, {});
}

const group = 'rbac.authorization.k8s.io';

/** Rights of an account in a namespace, or everywhere for null: a role of this name, and then its binding. */
export function toRole(
  { name, namespace }: { readonly name: string; readonly namespace: string | null },
  account: Account,
  { purpose, rules }: Rights,
): Manifest[] {
  const kind = namespace === null ? 'ClusterRole' : 'Role';
  const head = { apiVersion: `${group}/v1`, name, namespace };
  const subjects = [{ kind: 'ServiceAccount', name: account.name, namespace: account.namespace }];
  return [
    toManifest({ ...head, kind }, { rules }, [{ path: ['rules'], text: purpose }]),
    toManifest({ ...head, kind: `${kind}Binding` }, { roleRef: { apiGroup: group, kind, name }, subjects }),
  ];
}

import { toLeaseName } from '../../../lib/services/node-report.ts';
import { balancerName as name } from './services-rights.ts';
import { type Manifest } from './yaml.ts';

/** In the token of a pod's service account: where the pod runs. Source: k8s.io/apiserver, serviceaccount/util.go, NodeNameKey. */
const nodeNameKey = 'authentication.kubernetes.io/node-name';

const extra = 'request.userInfo.extra';
const nodeName = `${extra}['${nodeNameKey}'][0]`;

/** Tokens that are bound to no pod, as for a balancer outside of pods, name no node: roles alone limit these. */
const rule = `!has(${extra}) || !('${nodeNameKey}' in ${extra}) || object.metadata.name == '${toLeaseName('')}' + ${nodeName}`;

const purpose = "A balancer writes its own node's Lease, and no other.";

/** Roles cannot say that each node's balancer may write one Lease: an admission policy does (Kubernetes 1.30). */
export function toBalancerPolicy(namespace: string): Manifest[] {
  const labels = { 'app.kubernetes.io/name': name };
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const isBalancer = `request.userInfo.username == 'system:serviceaccount:${namespace}:${name}'`;
  const policy = {
    apiVersion,
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name, labels },
    spec: {
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: ['coordination.k8s.io'],
            apiVersions: ['*'],
            operations: ['CREATE', 'UPDATE'],
            resources: ['leases'],
          },
        ],
      },
      matchConditions: [{ name: 'is-balancer', expression: isBalancer }],
      validations: [{ expression: rule, message: 'a balancer may write only the Lease of its own node' }],
    },
  };
  const binding = {
    apiVersion,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata: { name, labels },
    spec: { policyName: name, validationActions: ['Deny'] },
  };
  return [
    { object: policy, comments: [{ path: ['spec'], text: purpose }] },
    { object: binding, comments: [] },
  ];
}

import {
  apiGroup,
  cleanupFinalizer,
  deviceFinalizerPrefix,
  electionLease,
  finalizer,
  formerFinalizer,
  managedByLabel,
  silentAnnotation,
  webhookName,
} from '../../../lib/services/names.ts';
import { toLeaseName } from '../../../lib/services/node-report.ts';
import { serviceNameLabel } from '../../../lib/services/services.ts';
import { toPolicyManifests } from './objects.ts';
import { balancerName, controllerName } from './services-rights.ts';
import { type Manifest } from './yaml.ts';

/** In the token of a pod's service account: where the pod runs. Source: k8s.io/apiserver, serviceaccount/util.go, NodeNameKey. */
const nodeNameKey = 'authentication.kubernetes.io/node-name';

const extra = 'request.userInfo.extra';
const nodeName = `${extra}['${nodeNameKey}'][0]`;

/** What roles cannot say of one account (Kubernetes 1.30). */
interface Limit {
  readonly name: string;
  readonly account: string;
  readonly condition: string;
  readonly purpose: string;
  /** Of a group of the API a resource and its operations, as words. */
  readonly resources: readonly (readonly [group: string, resource: string, operations: string])[];
  readonly rules: readonly { readonly expression: string; readonly message: string }[];
}

/** Tokens that are bound to no pod, as for a balancer outside of pods, name no node: roles alone limit these. */
const balancer: Limit = {
  name: balancerName,
  account: balancerName,
  condition: 'is-balancer',
  purpose: "A balancer writes its own node's Lease, and no other.",
  resources: [['coordination.k8s.io', 'leases', 'CREATE UPDATE']],
  rules: [
    {
      expression: `!has(${extra}) || !('${nodeNameKey}' in ${extra}) || object.metadata.name == '${toLeaseName('')}' + ${nodeName}`,
      message: 'a balancer may write only the Lease of its own node',
    },
  ],
};

const isOwnSlice = (one: string) => {
  const labels = `${one}.metadata.labels`;
  const has = `has(${labels}) && '${managedByLabel}' in ${labels} && ${labels}['${managedByLabel}'] == '${apiGroup}'`;
  return `(${one} == null || (${has} && !('${serviceNameLabel}' in ${labels})))`;
};

const isSame = (field: string) => {
  const [now, before] = [`object.${field}`, `oldObject.${field}`];
  return `has(${now}) == has(${before}) && (!has(${now}) || ${now} == ${before})`;
};

const areSame = (fields: readonly string[]) => fields.map(isSame).join(' && ');

/** What decides about an object beside its spec: labels, annotations, and with whom it goes. */
const ofOthers = ['labels', 'annotations', 'ownerReferences'].map((field) => `metadata.${field}`);

const listOthersFinalizers = (one: string) => {
  const finalizers = `${one}.metadata.finalizers`;
  const own = [finalizer, cleanupFinalizer, formerFinalizer].map((name) => `'${name}'`).join(', ');
  const isOwn = `name in [${own}] || name.startsWith('${deviceFinalizerPrefix}/')`;
  return `(has(${finalizers}) ? ${finalizers} : []).filter(name, !(${isOwn}))`;
};

const hasOthersFinalizers = `${listOthersFinalizers('object')} == ${listOthersFinalizers('oldObject')}`;

const ofPod = ['phase', 'podIP', 'podIPs', 'containerStatuses'].map((field) => `status.${field}`);

/** Whether each annotation of one is on the other, too: with its value, or with any. */
const areOn = (one: string, other: string, isSameValue: boolean) => {
  const [own, others] = [`${one}.metadata.annotations`, `${other}.metadata.annotations`];
  const value = isSameValue ? ` && ${others}[name] == ${own}[name]` : '';
  return `(!has(${own}) || ${own}.all(name, name == '${silentAnnotation}' || (has(${others}) && name in ${others}${value})))`;
};

const ofLease = ['spec', 'metadata.labels', 'metadata.ownerReferences', 'metadata.finalizers'];

const isNote = `${areSame(ofLease)} && ${areOn('object', 'oldObject', true)} && ${areOn('oldObject', 'object', false)}`;

const controller: Limit = {
  name: controllerName,
  account: controllerName,
  condition: 'is-controller',
  purpose:
    "The controller writes EndpointSlices of its own. Of pods it writes the conditions only. Of Services, pools and devices it writes its finalizers and the status. On nodes' Leases it writes a note.",
  resources: [
    ['discovery.k8s.io', 'endpointslices', 'CREATE UPDATE DELETE'],
    ['coordination.k8s.io', 'leases', 'UPDATE DELETE'],
    ...['services', 'services/status', 'pods/status'].map((name) => ['', name, 'UPDATE'] as const),
    ...['addresspools', 'addresspools/status', 'loadbalancerdevices', 'loadbalancerdevices/status'].map(
      (name) => [apiGroup, name, 'UPDATE'] as const,
    ),
  ],
  rules: [
    {
      expression: `request.resource.resource != 'endpointslices' || (${isOwnSlice('object')} && ${isOwnSlice('oldObject')})`,
      message: 'the controller may write only EndpointSlices that are its own',
    },
    {
      expression: `request.resource.resource != 'pods' || (${areSame([...ofPod, ...ofOthers])})`,
      message: "the controller may write only a pod's conditions",
    },
    {
      expression: `!(request.resource.resource in ['services', 'addresspools', 'loadbalancerdevices']) || (${areSame(['spec', ...ofOthers])} && ${hasOthersFinalizers})`,
      message:
        'the controller may write only its finalizers and the status of a Service, an AddressPool or a LoadBalancerDevice',
    },
    {
      expression: `request.resource.resource != 'leases' || request.name == '${electionLease}' || (request.name.startsWith('${toLeaseName('')}') && (request.operation == 'DELETE' || (${isNote})))`,
      message: "the controller may write only a note on a node's Lease, and delete it",
    },
  ],
};

/** A Secret of another type would get it a token of another account. */
const webhook: Limit = {
  name: webhookName,
  account: controllerName,
  condition: 'is-controller',
  purpose: "The controller writes the webhook's Secret, and no other.",
  resources: [['', 'secrets', 'CREATE UPDATE']],
  rules: [
    {
      expression: `object.metadata.name == '${webhookName}' && object.type == 'Opaque'`,
      message: "the controller may write only the webhook's Secret",
    },
  ],
};

/** What an admission policy forbids the controller that has a webhook. */
export function toWebhookPolicy(namespace: string): Manifest[] {
  return toPolicy(webhook, namespace);
}

/** What admission policies forbid both accounts. */
export function toPolicies(namespace: string): Manifest[] {
  return [balancer, controller].flatMap((limit) => toPolicy(limit, namespace));
}

function toPolicy(limit: Limit, namespace: string): Manifest[] {
  const { name, account, condition, purpose, resources, rules } = limit;
  const expression = `request.userInfo.username == 'system:serviceaccount:${namespace}:${account}'`;
  return toPolicyManifests({
    kind: 'ValidatingAdmissionPolicy',
    name,
    purpose,
    spec: {
      matchConstraints: {
        resourceRules: resources.map(([group, resource, operations]) => ({
          ...{
            apiGroups: [group],
            apiVersions: ['*'],
            operations: operations.split(' '),
            resources: [resource],
          },
        })),
      },
      matchConditions: [{ name: condition, expression }],
      validations: rules,
    },
    binding: { validationActions: ['Deny'] },
  });
}

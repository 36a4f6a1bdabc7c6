import { toManifest, toLabels, admission, toPolicyManifests, explain } from './pod.ts';
import {
  webhookPort,
  webhookEntry,
  webhookPath,
  toServerName,
  mirrorAnnotation,
  defaultGraceSeconds,
  pauseSeconds,
  toGateTypes,
} from '../../lib/api/endpoints.ts';
import {
  finalizer,
  gateType,
  gatesLabel,
  gatesPolicy,
  webhookName,
  apiGroup,
  electionLease,
  firstPools,
  deviceSecret,
  managedByLabel,
  cleanupFinalizer,
  formerFinalizer,
  deviceFinalizerPrefix,
  unresponsiveAnnotation,
} from '../../lib/api/vipnat.ts';
import { toLeaseName } from '../../lib/api/node.ts';
import { serviceNameLabel } from '../../lib/api/service.ts';

/**
 * The webhook that gives new pods a readiness gate and a pause before they end, for clusters whose API has no MutatingAdmissionPolicy.
 *
 * Goal: as with the policy of services-injection.ts.
 * Tension: API servers ask a program that can be down, or hang, while a pod is made.
 * Compromise: asked for as few pods as possible, for two seconds at most, and a pod is made as it was where there is no answer.
 */

/** An answer takes milliseconds. A controller that reads all objects of a large cluster may not come to it for a second. */
const timeoutSeconds = 2;

/** All that a webhook needs in addition to the controller's own objects. */
export function toWebhook(namespace: string): object[] {
  return [
    ...toRoles(webhookName, { name: controllerName, namespace }, webhookRights),
    ...toPolicy(webhook, namespace),
    toService(namespace),
    toConfiguration(namespace),
  ];
}

/** Both controllers answer, whichever leads. */
function toService(namespace: string): object {
  const ports = [{ name: 'webhook', port: 443, targetPort: webhookPort }];
  const head = { apiVersion: 'v1', kind: 'Service', name: webhookName, namespace };
  return toManifest(head, { spec: { selector: toLabels(controllerName), ports } });
}

/** Without a caBundle: the controller writes that, and it must stay when the manifest is applied again. */
function toConfiguration(namespace: string): object {
  const webhook = {
    name: webhookEntry,
    clientConfig: explain(
      `The controller writes caBundle here: the API server expects a certificate for ${toServerName(namespace)}.`,
      { service: { name: webhookName, namespace, path: webhookPath, port: 443 } },
    ),
    ...{ admissionReviewVersions: ['v1'], sideEffects: 'None' },
    ...{ failurePolicy: 'Ignore', timeoutSeconds },
    // A container that another webhook adds afterwards gets its pause too.
    ...{ matchPolicy: 'Equivalent', reinvocationPolicy: 'IfNeeded' },
    namespaceSelector: {
      ...askingNamespaces,
      matchExpressions: [
        { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', namespace] },
      ],
    },
    rules: [{ ...newPods, scope: 'Namespaced' }],
    matchConditions: [
      { name: 'is-server', expression: isServer },
      { name: 'has-labels', expression: 'has(object.metadata.labels)' },
    ],
  };
  const head = { apiVersion: admission, kind: 'MutatingWebhookConfiguration', namespace: null };
  return toManifest({ ...head, name: webhookName }, { webhooks: explain(injectionPurpose, [webhook]) });
}

/**
 * A MutatingAdmissionPolicy that gives new pods a readiness gate and a pause before they end, in namespaces that ask for it (Kubernetes 1.36).
 *
 * controller/webhook/webhook.ts says the same for older clusters, and one table of cases is put to both.
 *
 * Goal: a rolling update loses no connection, and nobody edits a Deployment for it.
 * Tension: what changes pods must keep none from starting, and most pods are no Service's.
 * Compromise: the API server itself decides by the Services of the pod's namespace, `failurePolicy: Ignore`. Each Service costs a lookup.
 */

const service = 'params.spec';
const pod = 'object.spec';

/** One that vipnat or a device serves, or will: by its class, or because the controller has taken it. */
const isServed = `has(${service}.type) && ${service}.type == 'LoadBalancer' && (${service}.?loadBalancerClass.orValue('').startsWith('${apiGroup}/') ||
  params.metadata.?finalizers.orValue([]).exists(name, name == '${finalizer}' || name.startsWith('${deviceFinalizerPrefix}/')))`;

const labels = 'object.metadata.labels';
/** An ExternalName is a name of elsewhere, whatever it selects. */
const selects = [
  `${service}.?type.orValue('') != 'ExternalName'`,
  `has(${service}.selector) && ${service}.selector.size() > 0 && has(${labels})`,
  `${service}.selector.all(key, key in ${labels} && ${labels}[key] == ${service}.selector[key])`,
].join(' && ');

/** Of the API server's language: pods that end by themselves have no rolling update, and the API has no word in those of a node's files. */
const isServer = [
  `(!has(${pod}.restartPolicy) || ${pod}.restartPolicy == 'Always')`,
  `!('${mirrorAnnotation}' in object.metadata.?annotations.orValue({}))`,
].join(' && ');

/**
 * For Services that vipnat serves: pods of other Services would wait for the controller alone.
 *
 * The list first, and empty: up to Kubernetes 1.36.3 the request breaks off where a patch adds a list with an object in it
 * (kubernetes/kubernetes#142181). An atomic list is no matter of an apply configuration.
 */
const addGate = `!(${isServed}) || ${pod}.?readinessGates.orValue([]).exists(gate, gate.conditionType == '${gateType}') ? [] :
  (has(${pod}.readinessGates) ? [] : [JSONPatch{op: 'add', path: '/spec/readinessGates', value: []}]) +
  [JSONPatch{op: 'add', path: '/spec/readinessGates/-', value: Object.spec.readinessGates{conditionType: '${gateType}'}}]`;

const lifecycle = 'Object.spec.containers.lifecycle';
const unpaused = `${pod}.containers.filter(container, !(has(container.lifecycle) && has(container.lifecycle.preStop)))`;
const hasPause = `${pod}.containers.exists(container, container.?lifecycle.?preStop.?sleep.?seconds.orValue(0) == ${pauseSeconds})`;
const graceSeconds = `${pod}.?terminationGracePeriodSeconds.orValue(${defaultGraceSeconds})`;
/** The pause comes in addition to the time that the pod has to end. A pod with no such time has no pause. */
const addPause = `${graceSeconds} <= 0 || ${unpaused}.size() == 0 ? Object{} :
  Object{spec: Object.spec{terminationGracePeriodSeconds: ${graceSeconds} + (${hasPause} ? 0 : ${pauseSeconds}),
    containers: ${unpaused}.map(container, Object.spec.containers{name: container.name, lifecycle: ${lifecycle}{
      preStop: ${lifecycle}.preStop{sleep: ${lifecycle}.preStop.sleep{seconds: ${pauseSeconds}}}}})}}`;

const askingNamespaces = { matchLabels: { [gatesLabel]: 'enabled' } };

const injectionPurpose = `In namespaces with the label ${gatesLabel}=enabled, new pods of Services get a pause before they end. Pods of vipnat's Services also get a readiness gate.`;

const newPods = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] };

/** The policy and its binding. A namespace asks for it by a label. */
export function toInjection(): object[] {
  return toPolicyManifests({
    kind: 'MutatingAdmissionPolicy',
    name: gatesPolicy,
    purpose: injectionPurpose,
    spec: {
      // A container that a webhook adds afterwards gets its pause too.
      ...{ failurePolicy: 'Ignore', reinvocationPolicy: 'IfNeeded' },
      paramKind: { apiVersion: 'v1', kind: 'Service' },
      matchConstraints: { namespaceSelector: askingNamespaces, resourceRules: [newPods] },
      matchConditions: [
        { name: 'is-server', expression: isServer },
        { name: 'is-selected', expression: selects },
      ],
      mutations: [
        { patchType: 'JSONPatch', jsonPatch: { expression: addGate } },
        { patchType: 'ApplyConfiguration', applyConfiguration: { expression: addPause } },
      ],
    },
    binding: { paramRef: { selector: {}, parameterNotFoundAction: 'Allow' } },
  });
}

/** A rule of a group of the API: resources and verbs as words, limited to objects of these names if there are any. */
export function allow(group: string, resources: string, verbs: string, only: readonly string[] = []): object {
  return {
    apiGroups: [group],
    resources: resources.split(' '),
    ...(only.length === 0 ? {} : { resourceNames: only }),
    verbs: verbs.split(' '),
  };
}

/** Rules, and what they are for. */
export interface Rights {
  readonly purpose: string;
  readonly rules: readonly object[];
}

interface Account {
  readonly name: string;
  readonly namespace: string;
}

/** The account itself. */
export function toAccount(account: Account): object {
  return toManifest({ apiVersion: 'v1', kind: 'ServiceAccount', ...account }, {});
}

const group = 'rbac.authorization.k8s.io';

/** Rights of an account in a namespace, or everywhere for null: a role of this name, and then its binding. */
export function toRole(
  { name, namespace }: { readonly name: string; readonly namespace: string | null },
  account: Account,
  { purpose, rules }: Rights,
): object[] {
  const kind = namespace === null ? 'ClusterRole' : 'Role';
  const head = { apiVersion: `${group}/v1`, name, namespace };
  const subjects = [{ kind: 'ServiceAccount', name: account.name, namespace: account.namespace }];
  return [
    toManifest({ ...head, kind }, { rules: explain(purpose, rules) }),
    toManifest({ ...head, kind: `${kind}Binding` }, { roleRef: { apiGroup: group, kind, name }, subjects }),
  ];
}

/** The controller's Deployment, its account and its rights. */
export const controllerName = 'vipnat-controller';

/** The balancer's DaemonSet, its account and its rights. */
export const balancerName = 'vipnat-balancer';

/** Of all namespaces, and of vipnat's own. */
interface AllRights {
  readonly cluster: Rights;
  readonly own: Rights;
}

/** The accounts of controller and balancer: each with what it follows, asks for and reports, and nothing else. */
export function toServicesRights(namespace: string): object[] {
  const accountToRights = { [controllerName]: controllerRights, [balancerName]: balancerRights };
  return Object.entries(accountToRights).flatMap(([name, rights]) => {
    const account = { name, namespace };
    return [toAccount(account), ...toRoles(name, account, rights)];
  });
}

function toRoles(name: string, account: Account, { cluster, own }: AllRights): object[] {
  return [
    ...toRole({ name, namespace: null }, account, cluster),
    ...toRole({ name, namespace: account.namespace }, account, own),
  ];
}

const leases = 'coordination.k8s.io';

const controllerRights: AllRights = {
  cluster: {
    purpose:
      'To follow Services, pods, nodes, namespaces, ServiceCIDRs and the addresses of apiservers. To give addresses, and to write finalizers, statuses and events. To open readiness gates by EndpointSlices of its own.',
    rules: [
      allow('', 'services', 'get list watch patch'),
      allow('', 'services/status', 'patch'),
      allow('', 'nodes namespaces pods', 'list watch'),
      allow('', 'pods/status', 'patch'),
      allow('discovery.k8s.io', 'endpointslices', 'list watch create patch delete'),
      // OpenShift's admission asks for it of who writes addresses of pods. Other clusters know no such resource.
      allow('discovery.k8s.io', 'endpointslices/restricted', 'create'),
      allow('networking.k8s.io', 'servicecidrs', 'list watch'),
      allow(apiGroup, 'addresspools', 'list watch create patch'),
      allow(apiGroup, 'virtualips', 'get list watch create patch delete'),
      allow(apiGroup, 'loadbalancerdevices', 'list watch patch'),
      allow(apiGroup, 'addresspools/status virtualips/status loadbalancerdevices/status', 'patch'),
      allow('events.k8s.io', 'events', 'create patch'),
    ],
  },
  own: {
    purpose:
      'To learn what the nodes report. To note and delete Leases of nodes that report no more. To choose one controller that writes, and to create the first pools. To read the credentials of devices.',
    // What is created has no name to be limited to.
    rules: [
      allow(leases, 'leases', 'list watch create patch delete'),
      allow(leases, 'leases', 'get', [electionLease]),
      allow('', 'configmaps', 'get patch', [firstPools]),
      allow('', 'secrets', 'get', [deviceSecret]),
    ],
  },
};

const balancerRights: AllRights = {
  cluster: {
    purpose:
      'To follow Services, their pods, who has which address, and nodes: their zones, and whether they shut down.',
    rules: [
      allow('', 'services nodes', 'list watch'),
      allow('discovery.k8s.io', 'endpointslices', 'list watch'),
      allow(apiGroup, 'addresspools virtualips', 'list watch'),
    ],
  },
  own: {
    purpose:
      'To report what this node has done, in the Lease of the node. To learn where other nodes are, and whether a controller leads.',
    rules: [allow(leases, 'leases', 'get list create patch')],
  },
};

/** What the controller's account needs besides to keep the webhook's certificate. */
const webhookRights: AllRights = {
  cluster: {
    purpose:
      'To write which certificates the API server trusts. This right also allows to change what the webhook is asked about.',
    rules: [
      allow('admissionregistration.k8s.io', 'mutatingwebhookconfigurations', 'list watch patch', [
        webhookName,
      ]),
    ],
  },
  own: {
    purpose:
      'To make and renew the certificate of the webhook. An admission policy lets it create no other Secret.',
    // What is created has no name to be limited to.
    rules: [allow('', 'secrets', 'create'), allow('', 'secrets', 'list watch patch', [webhookName])],
  },
};

/** In the token of a pod's service account: where the pod runs. Source: k8s.io/apiserver, serviceaccount/util.go, NodeNameKey. */
const nodeNameKey = 'authentication.kubernetes.io/node-name';

const extra = 'request.userInfo.extra';
const nodeName = `${extra}['${nodeNameKey}'][0]`;

/** What roles cannot say of one account (Kubernetes 1.30). */
interface Limit {
  readonly name: string;
  readonly account: typeof controllerName | typeof balancerName;
  readonly purpose: string;
  /** Of a group of the API a resource and its operations, as words. */
  readonly resources: readonly (readonly [group: string, resource: string, operations: string])[];
  /** What the rules refer to. */
  readonly variables?: readonly { readonly name: string; readonly expression: string }[];
  readonly rules: readonly { readonly expression: string; readonly message: string }[];
}

/** Tokens that are bound to no pod, as for a balancer outside of pods, name no node: roles alone limit these. */
const balancer: Limit = {
  name: balancerName,
  account: balancerName,
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

/** What decides about an object in addition to its spec: labels, annotations, and its owners. */
const ofOthers = ['labels', 'annotations', 'ownerReferences'].map((field) => `metadata.${field}`);

const toList = (texts: readonly string[]) => `[${texts.map((text) => `'${text}'`).join(', ')}]`;

/** Whether a list has the same items in the same order as before, but for those of its own. */
const hasOthersOf = (list: string, isOwn: string) => {
  const listOthers = (one: string) => `(has(${one}.${list}) ? ${one}.${list} : []).filter(each, !(${isOwn}))`;
  return `${listOthers('object')} == ${listOthers('oldObject')}`;
};

const ownFinalizers = toList([finalizer, cleanupFinalizer, formerFinalizer]);

const hasOthersFinalizers = hasOthersOf(
  'metadata.finalizers',
  `each in ${ownFinalizers} || each.startsWith('${deviceFinalizerPrefix}/')`,
);

/** Whether one has each field of the status as the other, but for the conditions. Newer versions of Kubernetes have more fields. */
const hasStatusOf = (one: string, other: string) =>
  `${one}.status.all(field, field == 'conditions' || (field in ${other}.status && ${one}.status[field] == ${other}.status[field]))`;

const hasOthersConditions = [
  ...[hasStatusOf('object', 'oldObject'), hasStatusOf('oldObject', 'object')],
  hasOthersOf('status.conditions', 'each.type in variables.gates'),
].join(' && ');

/** Whether each annotation of one is on the other, too: with its value, or with any. */
const areOn = (one: string, other: string, isSameValue: boolean) => {
  const [own, others] = [`${one}.metadata.annotations`, `${other}.metadata.annotations`];
  const value = isSameValue ? ` && ${others}[name] == ${own}[name]` : '';
  return `(!has(${own}) || ${own}.all(name, name == '${unresponsiveAnnotation}' || (has(${others}) && name in ${others}${value})))`;
};

const ofLease = ['spec', 'metadata.labels', 'metadata.ownerReferences', 'metadata.finalizers'];

const isNote = `${areSame(ofLease)} && ${areOn('object', 'oldObject', true)} && ${areOn('oldObject', 'object', false)}`;

const controller: Limit = {
  name: controllerName,
  account: controllerName,
  purpose:
    "The controller writes EndpointSlices of its own. Of pods it writes the conditions of its readiness gates. Of Services, pools and devices it writes its finalizers and the status. On nodes' Leases it writes a note.",
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
      expression: `request.resource.resource != 'pods' || (${areSame([...ofOthers, 'metadata.finalizers'])} && ${hasOthersConditions})`,
      message: "the controller may write only the conditions of a pod's readiness gates that it opens",
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
  purpose: "The controller writes the webhook's Secret, and no other.",
  resources: [['', 'secrets', 'CREATE UPDATE']],
  rules: [
    {
      expression: `object.metadata.name == '${webhookName}' && object.type == 'Opaque'`,
      message: "the controller may write only the webhook's Secret",
    },
  ],
};

/** What admission policies forbid both accounts. `gates` are the types of gates that the controller opens in addition to its own. */
export function toPolicies(namespace: string, gates: readonly string[]): object[] {
  // The chart adds its own to this list.
  const variables = [{ name: 'gates', expression: toList([...toGateTypes(gates)]) }];
  return [...toPolicy(balancer, namespace), ...toPolicy({ ...controller, variables }, namespace)];
}

function toPolicy(limit: Limit, namespace: string): object[] {
  const { name, account, purpose, resources, variables, rules } = limit;
  const expression = `request.userInfo.username == 'system:serviceaccount:${namespace}:${account}'`;
  return toPolicyManifests({
    kind: 'ValidatingAdmissionPolicy',
    name,
    purpose,
    spec: {
      matchConstraints: {
        resourceRules: resources.map(([group, resource, operations]) => ({
          ...{ apiGroups: [group], apiVersions: ['*'] },
          ...{ operations: operations.split(' '), resources: [resource] },
        })),
      },
      matchConditions: [{ name: account.replace('vipnat', 'is'), expression }],
      ...(variables === undefined ? {} : { variables }),
      validations: rules,
    },
    binding: { validationActions: ['Deny'] },
  });
}

/**
 * A MutatingAdmissionPolicy that gives new pods a readiness gate and a pause before they end, in namespaces that ask for it (Kubernetes 1.36).
 *
 * controller/webhook/decide-patch.ts says the same for older clusters, and one table of cases is put to both.
 *
 * Goal: a rolling update loses no connection, and nobody edits a Deployment for it.
 * Tension: what changes pods must keep none from starting, and most pods are no Service's.
 * Compromise: the API server itself decides by the Services of the pod's namespace, `failurePolicy: Ignore`. Each Service of it costs a look.
 */
import { defaultGraceSeconds, mirrorAnnotation, pauseSeconds } from '../../../lib/services/injection.ts';
import {
  finalizer,
  gatesLabel,
  gatesPolicy as name,
  gateType,
  loadBalancerClass,
} from '../../../lib/services/names.ts';
import { toPolicyManifests } from './objects.ts';
import { type Manifest } from './yaml.ts';

const service = 'params.spec';
const pod = 'object.spec';

/** One that vipnat serves, or will: by its class, or because the controller has taken it. */
const isServed = `has(${service}.type) && ${service}.type == 'LoadBalancer' &&
  (${service}.?loadBalancerClass.orValue('') == '${loadBalancerClass}' || '${finalizer}' in params.metadata.?finalizers.orValue([]))`;

const labels = 'object.metadata.labels';
const selects = [
  `has(${service}.selector) && ${service}.selector.size() > 0 && has(${labels})`,
  `${service}.selector.all(key, key in ${labels} && ${labels}[key] == ${service}.selector[key])`,
].join(' && ');

/** Of the API server's language: pods that end by themselves have no rolling update, and the API has no word in those of a node's files. */
export const isServer = [
  `(!has(${pod}.restartPolicy) || ${pod}.restartPolicy == 'Always')`,
  `!('${mirrorAnnotation}' in object.metadata.?annotations.orValue({}))`,
].join(' && ');

/**
 * The list first, and empty: up to Kubernetes 1.36.3 the request breaks off where a patch adds a list with an object in it
 * (kubernetes/kubernetes#142181). An atomic list is no matter of an apply configuration.
 */
const addGate = `${pod}.?readinessGates.orValue([]).exists(gate, gate.conditionType == '${gateType}') ? [] :
  (has(${pod}.readinessGates) ? [] : [JSONPatch{op: 'add', path: '/spec/readinessGates', value: []}]) +
  [JSONPatch{op: 'add', path: '/spec/readinessGates/-', value: Object.spec.readinessGates{conditionType: '${gateType}'}}]`;

const lifecycle = 'Object.spec.containers.lifecycle';
const hasOwn = 'has(container.lifecycle) && has(container.lifecycle.preStop)';
/** Who ends sooner than that has no time for a pause, and the API refuses one that is longer. */
const addPause = `${pod}.?terminationGracePeriodSeconds.orValue(${defaultGraceSeconds}) <= ${pauseSeconds} ? Object{} :
  Object{spec: Object.spec{containers: ${pod}.containers.filter(container, !(${hasOwn})).map(container,
    Object.spec.containers{name: container.name, lifecycle: ${lifecycle}{
      preStop: ${lifecycle}.preStop{sleep: ${lifecycle}.preStop.sleep{seconds: ${pauseSeconds}}}}})}}`;

/** Which namespaces ask for gates. */
export const askingNamespaces = { matchLabels: { [gatesLabel]: 'enabled' } };

/** What becomes of new pods there. */
export const injectionPurpose = `In namespaces with the label ${gatesLabel}=enabled, new pods of vipnat's Services get a readiness gate and a pause.`;

/** New pods. */
export const newPods = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] };

/** The policy and its binding. A namespace asks for it by a label. */
export function toInjection(): Manifest[] {
  return toPolicyManifests({
    kind: 'MutatingAdmissionPolicy',
    name,
    purpose: injectionPurpose,
    spec: {
      // A container that a webhook adds afterwards gets its pause too.
      ...{ failurePolicy: 'Ignore', reinvocationPolicy: 'IfNeeded' },
      paramKind: { apiVersion: 'v1', kind: 'Service' },
      matchConstraints: { namespaceSelector: askingNamespaces, resourceRules: [newPods] },
      matchConditions: [
        { name: 'is-server', expression: isServer },
        { name: 'is-served', expression: isServed },
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

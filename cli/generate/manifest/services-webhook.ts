/**
 * The webhook that gives new pods a readiness gate and a pause before they end, for clusters whose API has no MutatingAdmissionPolicy.
 *
 * Goal: as with the policy of services-injection.ts.
 * Tension: API servers ask a program that can be down, or hang, while a pod is made.
 * Compromise: asked for as few pods as possible, for two seconds at most, and a pod is made as it was where there is no answer.
 */
import { toServerName, webhookEntry, webhookPath, webhookPort } from '../../../lib/services/injection.ts';
import { gatesLabel, webhookName as name } from '../../../lib/services/names.ts';
import { toWebhookPolicy } from './services-admission.ts';
import { isServer } from './services-injection.ts';
import { controllerName, toWebhookRights } from './services-rights.ts';
import { type Manifest } from './yaml.ts';

/** An answer takes milliseconds. A controller that reads all objects of a large cluster may not come to it for a second. */
const timeoutSeconds = 2;

const labels = { 'app.kubernetes.io/name': name };

/** All that a webhook needs beside the controller's own objects. */
export function toWebhook(namespace: string): Manifest[] {
  return [
    ...toWebhookRights(namespace),
    ...toWebhookPolicy(namespace),
    { object: toService(namespace), comments: [] },
    toConfiguration(namespace),
  ];
}

/** Both controllers answer, whichever leads. */
function toService(namespace: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, labels },
    spec: {
      selector: { 'app.kubernetes.io/name': controllerName },
      ports: [{ name: 'webhook', port: 443, targetPort: webhookPort }],
    },
  };
}

/** Without a caBundle: the controller writes that, and it must stay when the manifest is applied again. */
function toConfiguration(namespace: string): Manifest {
  const webhook = {
    name: webhookEntry,
    clientConfig: { service: { name, namespace, path: webhookPath, port: 443 } },
    ...{ admissionReviewVersions: ['v1'], sideEffects: 'None' },
    ...{ failurePolicy: 'Ignore', timeoutSeconds },
    // A container that another webhook adds afterwards gets its pause too.
    ...{ matchPolicy: 'Equivalent', reinvocationPolicy: 'IfNeeded' },
    namespaceSelector: {
      matchLabels: { [gatesLabel]: 'enabled' },
      matchExpressions: [
        { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', namespace] },
      ],
    },
    rules: [
      {
        ...{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'] },
        ...{ resources: ['pods'], scope: 'Namespaced' },
      },
    ],
    matchConditions: [
      { name: 'is-server', expression: isServer },
      { name: 'has-labels', expression: 'has(object.metadata.labels)' },
    ],
  };
  const purpose = `In namespaces with the label ${gatesLabel}=enabled, new pods of vipnat's Services get a readiness gate and a pause.`;
  const text = `The controller writes caBundle here: the API server expects a certificate for ${toServerName(namespace)}.`;
  return {
    object: {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingWebhookConfiguration',
      metadata: { name, labels },
      webhooks: [webhook],
    },
    comments: [
      { path: ['webhooks'], text: purpose },
      { path: ['webhooks', 0, 'clientConfig'], text },
    ],
  };
}

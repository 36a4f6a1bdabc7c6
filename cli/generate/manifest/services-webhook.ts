/**
 * The webhook that gives new pods a readiness gate and a pause before they end, for clusters whose API has no MutatingAdmissionPolicy.
 *
 * Goal: as with the policy of services-injection.ts.
 * Tension: API servers ask a program that can be down, or hang, while a pod is made.
 * Compromise: asked for as few pods as possible, for two seconds at most, and a pod is made as it was where there is no answer.
 */
import { toServerName, webhookEntry, webhookPath, webhookPort } from '../../../lib/services/injection.ts';
import { webhookName as name } from '../../../lib/services/names.ts';
import { admission, toLabels, toManifest } from './objects.ts';
import { toWebhookPolicy } from './services-admission.ts';
import { askingNamespaces, injectionPurpose, isServer, newPods } from './services-injection.ts';
import { controllerName, toWebhookRights } from './services-rights.ts';
import { type Manifest } from './yaml.ts';

/** An answer takes milliseconds. A controller that reads all objects of a large cluster may not come to it for a second. */
const timeoutSeconds = 2;

/** All that a webhook needs beside the controller's own objects. */
export function toWebhook(namespace: string): Manifest[] {
  return [
    ...toWebhookRights(namespace),
    ...toWebhookPolicy(namespace),
    toService(namespace),
    toConfiguration(namespace),
  ];
}

/** Both controllers answer, whichever leads. */
function toService(namespace: string): Manifest {
  const ports = [{ name: 'webhook', port: 443, targetPort: webhookPort }];
  const head = { apiVersion: 'v1', kind: 'Service', name, namespace };
  return toManifest(head, { spec: { selector: toLabels(controllerName), ports } });
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
  const text = `The controller writes caBundle here: the API server expects a certificate for ${toServerName(namespace)}.`;
  const head = { apiVersion: admission, kind: 'MutatingWebhookConfiguration', name, namespace: null };
  return toManifest(head, { webhooks: [webhook] }, [
    { path: ['webhooks'], text: injectionPurpose },
    { path: ['webhooks', 0, 'clientConfig'], text },
  ]);
}

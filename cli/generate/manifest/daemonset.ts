import { toDaemonSet } from './objects.ts';
import { everyTaint as tolerations, toPodSpec } from './pod.ts';
import { type ManifestRequest } from './request.ts';
import { allow, type Rights, toAccount, toRole } from './rights.ts';
import { type Manifest } from './yaml.ts';

const name = 'vipnat';

/** A DaemonSet for the control-plane nodes, and what it may do with the API: follow the Service default/kubernetes and its EndpointSlice, and write events. */
export function toDaemonSetManifests(request: ManifestRequest): Manifest[] {
  const account = { name, namespace: request.options.namespace };
  const pod = toPodSpec(request, 'daemonset');
  const value = { serviceAccountName: name, affinity, tolerations, ...pod.value };
  return [
    toAccount(account),
    ...toRole({ name, namespace: 'default' }, account, rights),
    toDaemonSet(account, { ...pod, value }),
  ];
}

/**
 * What agent/api/kubernetes-objects.ts and lib/kubernetes/event-request.ts ask for: by its name each time, as a list that is limited to
 * names has to be. What is created has no name to be limited to.
 */
const rights: Rights = {
  purpose: 'To read the apiservers and the Service default/kubernetes, and to write events about nodes.',
  rules: [
    allow('discovery.k8s.io', 'endpointslices', 'list watch', ['kubernetes']),
    allow('', 'services', 'list watch', ['kubernetes']),
    allow('events.k8s.io', 'events', 'create patch'),
  ],
};

const controlPlane = 'node-role.kubernetes.io/control-plane';

/** By the label alone: its value is empty where kubeadm sets it, and `true` where RKE2 and k3s do. */
const affinity = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: controlPlane, operator: 'Exists' }] }],
    },
  },
};

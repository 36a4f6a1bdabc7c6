import { definitions } from '../../../lib/services/definitions.ts';
import { firstPools } from '../../../lib/services/names.ts';
import { type ManifestRequest } from './request.ts';
import { toPolicies } from './services-admission.ts';
import { toBalancerDaemonSet } from './services-balancer.ts';
import { toControllerDeployment } from './services-controller.ts';
import { toInjection } from './services-injection.ts';
import { toWebhook } from './services-webhook.ts';
import { toBalancerRights, toControllerRights } from './services-rights.ts';
import { type Manifest } from './yaml.ts';

/** Everything that gives addresses to Services: objects, controller and balancers with their rights, and a pool where one is asked for. */
export function toServicesManifests(request: ManifestRequest): Manifest[] {
  const { namespace, pool, injectGates } = request.options;
  return [
    toNamespace(namespace),
    ...definitions.map((object): Manifest => ({ object, comments: [] })),
    ...toControllerRights(namespace),
    ...toBalancerRights(namespace),
    ...toPolicies(namespace),
    ...(injectGates === 'policy' ? toInjection() : []),
    ...(injectGates === 'webhook' ? toWebhook(namespace) : []),
    ...(pool.length === 0 ? [] : [toFirstPools(namespace, pool)]),
    toControllerDeployment(request),
    toBalancerDaemonSet(request),
  ];
}

/** Clusters that hold every namespace to a standard (PodSecurity) refuse pods of the host's network without this. */
function toNamespace(name: string): Manifest {
  const labels = { 'pod-security.kubernetes.io/enforce': 'privileged' };
  return {
    object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } },
    comments: [
      { path: ['metadata', 'labels'], text: "The balancer's pods need the network of their nodes." },
    ],
  };
}

/** kubectl refuses an AddressPool beside its own definition. */
function toFirstPools(namespace: string, ranges: readonly string[]): Manifest {
  return {
    object: {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: firstPools, namespace },
      data: { default: ranges.join('\n') },
    },
    comments: [
      { path: ['data'], text: 'The controller creates an AddressPool of this name, and never changes it.' },
    ],
  };
}

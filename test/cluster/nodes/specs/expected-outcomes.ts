/** What comes of Kubernetes' own specs of load balancers, of 1.36.3: docs/services-conformance.md says the same. */

/** By the specs' names. */
export const expectedOutcomes: Readonly<Record<string, 'passed' | 'failed' | 'skipped'>> = {
  ...name('LoadBalancers', [
    'be able to change the type and ports of a TCP service',
    'be able to change the type and ports of a UDP service',
    'be able to create LoadBalancer Service without NodePort and change it',
    'be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on different nodes',
    'be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on the same nodes',
    'be able to switch session affinity for LoadBalancer service with Cluster traffic policy',
    'be able to switch session affinity for LoadBalancer service with Local traffic policy',
    'handle load balancer cleanup finalizer for service',
    'have session affinity work for LoadBalancer service with Cluster traffic policy',
    'have session affinity work for LoadBalancer service with Local traffic policy',
    'not have connectivity disruption during rolling update with externalTrafficPolicy=Cluster',
    'not have connectivity disruption during rolling update with externalTrafficPolicy=Local',
    'only allow access from service loadbalancer source ranges',
  ]),
  ...name('LoadBalancers ExternalTrafficPolicy: Local', [
    'only target nodes with endpoints',
    'target all nodes with endpoints',
    'work for type=LoadBalancer',
    'work from pods',
  ]),
};

function name(container: string, texts: readonly string[]): Record<string, 'passed'> {
  return Object.fromEntries(texts.map((text) => [`${container} should ${text}`, 'passed' as const]));
}

/**
 * Kubernetes' own specs of load balancers, as they are, on real nodes with vipnat's Services. docs/services-operate.md says
 * what came of them.
 */
import { jest, beforeAll, test, expect } from '@jest/globals';
import { useNodes } from './use-nodes.ts';
import { buildSpecComponents } from '../../../../tools/lab/build/build.ts';
import { tell } from '../../../support/lab/test-lab.ts';
import { importImage, buildAgnhostImage } from '../../../../tools/lab/kubernetes-specs/agnhost.ts';
import { addClusterDns } from '../../../../tools/lab/kubernetes-specs/cluster-dns.ts';
import { installServices } from '../../../../tools/lab/services/install.ts';
import { addHostBehindRouter } from '../../../../tools/lab/kubernetes-specs/host-behind-router.ts';
import { runSpecs, type SpecResult } from '../../../../tools/lab/kubernetes-specs/run-specs.ts';

const limitMs = 60 * 60_000;

jest.setTimeout(limitMs);

/** Each of these waits for pods that take a minute to end, ten times. They go well beside the others. */
const rollouts = 'connectivity disruption during rolling update';

const lab = useNodes();

beforeAll(async () => {
  const { kubernetes } = lab().options;
  await buildSpecComponents(kubernetes, tell);
  await importImage(lab(), ['worker', 'worker2'], await buildAgnhostImage(kubernetes));
  await addClusterDns(lab());
  // The specs' Services name no class.
  await installServices(lab(), '--default-class');
});

test('each has the outcome that the documents say', async () => {
  const enter = await addHostBehindRouter(lab());
  const choices = [
    { name: 'others', focus: 'LoadBalancers', skip: rollouts },
    ...['Cluster', 'Local'].map((policy) => ({
      name: `rollout-${policy.toLowerCase()}`,
      focus: `LoadBalancers.*${rollouts} with externalTrafficPolicy=${policy}`,
    })),
  ];
  const results = await Promise.all(choices.map((choice) => runSpecs(lab(), enter, { ...choice, limitMs })));
  const outcomes = results.flat();
  tell(outcomes.map(describe).join('\n'));
  expect(Object.fromEntries(outcomes.map(({ name, outcome }) => [name, outcome]))).toEqual(expectedOutcomes);
});

function describe({ name, outcome, seconds, why }: SpecResult): string {
  return `${outcome.padEnd(7)} ${seconds.toFixed(0).padStart(4)} s  ${name}${why === '' ? '' : `\n        ${why}`}`;
}

/** What comes of them, of 1.36.3, by their names; docs/services-operate.md counts them. */
const expectedOutcomes: Readonly<Record<string, 'passed' | 'failed' | 'skipped'>> = {
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

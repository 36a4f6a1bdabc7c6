/**
 * Kubernetes' own specs of load balancers, as they are, on real nodes with vipnat's Services. docs/services-conformance.md has
 * what came of each.
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
import { expectedOutcomes } from '../specs/expected-outcomes.ts';

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

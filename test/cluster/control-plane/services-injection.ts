import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { onlyLong } from '../../support/jest/extent.ts';
import { tell } from '../../support/lab/test-lab.ts';
import { type KubernetesObject } from '../../support/manifest/printing.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { type ServicesWorld, stepsMs } from './services-world.ts';

const ownGate = 'vipnat.io/load-balancer-ready';
const otherGate = 'example.com/ready';

const gate = (conditionType: string) => ({ conditionType });
const preStop = { exec: { command: ['true'] } };
const ours = { type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb' };

/** They ask for no address of the pool that other tests count. */
const annotations = { 'vipnat.io/pool': 'none' };

/** What a namespace has that asks for gates, by the Services' names. */
const services: Readonly<Record<string, object>> = {
  web: { ...ours, selector: { app: 'web' } },
  twice: { ...ours, selector: { app: 'web', tier: 'front' } },
  stranger: { type: 'LoadBalancer', loadBalancerClass: 'example.com/lb', selector: { app: 'stranger' } },
  inner: { selector: { app: 'inner' } },
  everything: ours,
};

interface Container {
  readonly name: string;
  readonly lifecycle?: { readonly preStop?: object };
}

interface Pod {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly spec?: object;
  readonly namespace?: string;
}

interface Admitted {
  readonly gates: readonly string[];
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
}

/** Tests of what a real apiserver makes of new pods by the printed MutatingAdmissionPolicy. */
export function testInjection(world: () => ServicesWorld): void {
  const create = async (kind: string, namespace: string | null, object: object) => {
    const { name, ...metadata } = (object as KubernetesObject).metadata;
    await world().create({
      ...{ apiVersion: 'v1', kind, ...object },
      metadata: { name, ...metadata, ...(namespace === null ? {} : { namespace }) },
    });
  };
  const containers = [{ name: 'nginx', image: 'nginx' }];
  const admit = async ({
    labels = { app: 'web' },
    spec = {},
    namespace = 'gates',
  }: Pod): Promise<Admitted> => {
    const metadata = { name: 'tried', ...(Object.keys(labels).length === 0 ? {} : { labels }) };
    const object = { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers, ...spec } };
    const path = `/api/v1/namespaces/${namespace}/pods?dryRun=All`;
    const { code, object: made } = await world().api.ask({ method: 'POST', path, object });
    if (code !== 201) throw new Error(`${code} ${made.message ?? ''}`);
    const admitted = made['spec'] as {
      readonly readinessGates?: readonly { readonly conditionType: string }[];
      readonly containers: readonly Container[];
      readonly initContainers?: readonly Container[];
    };
    const gates = (admitted.readinessGates ?? []).map(({ conditionType }) => conditionType);
    return { gates, containers: admitted.containers, initContainers: admitted.initContainers ?? [] };
  };
  const listPauses = (list: readonly Container[]) => list.map(({ lifecycle }) => lifecycle?.preStop ?? null);
  const pause = { sleep: { seconds: 2 } };

  describe('in a namespace that asks for gates', () => {
    beforeAll(async () => {
      for (const [name, labels] of Object.entries({ gates: { 'vipnat.io/gates': 'enabled' }, none: {} })) {
        await create('Namespace', null, { metadata: { name, labels } });
        await create('ServiceAccount', name, { metadata: { name: 'default' } });
        for (const [service, spec] of Object.entries(services))
          await create('Service', name, {
            metadata: { name: service, annotations },
            spec: { ports: [{ port: 80 }], ...spec },
          });
      }
      await waitFor(async () => (await admit({})).gates.length > 0, stepsMs);
    });

    test.each<[string, Pod, readonly string[], readonly (object | null)[]]>([
      ['a pod of our Service', {}, [ownGate], [pause]],
      ['a pod of two', { labels: { app: 'web', tier: 'front' } }, [ownGate], [pause]],
      [
        'one with a gate of others',
        { spec: { readinessGates: [gate(otherGate)] } },
        [otherGate, ownGate],
        [pause],
      ],
      ['one with our gate', { spec: { readinessGates: [gate(ownGate)] } }, [ownGate], [pause]],
      [
        'one of whose containers one says what it does before it ends',
        {
          spec: {
            containers: [
              { ...containers[0], lifecycle: { preStop } },
              { name: 'log', image: 'log' },
            ],
          },
        },
        [ownGate],
        [preStop, pause],
      ],
      ['one that has a second to end', { spec: { terminationGracePeriodSeconds: 1 } }, [ownGate], [null]],
      ['a pod of a ClusterIP', { labels: { app: 'inner' } }, [], [null]],
      ["a pod of others' load balancer", { labels: { app: 'stranger' } }, [], [null]],
      ['a pod without labels', { labels: {} }, [], [null]],
      ['a pod that ends by itself', { spec: { restartPolicy: 'Never' } }, [], [null]],
      ['a pod of another namespace', { namespace: 'none' }, [], [null]],
    ])('%s', async (_, pod, gates, pauses) => {
      const admitted = await admit(pod);
      expect(admitted.gates).toEqual(gates);
      expect(listPauses(admitted.containers)).toEqual(pauses);
    });

    test('a Service without a class counts as soon as a controller has taken it', async () => {
      const classless = { type: 'LoadBalancer', selector: { app: 'classless' }, ports: [{ port: 80 }] };
      // These controllers serve none without a class, and would give it back.
      const signal = (name: NodeJS.Signals) => {
        for (const controller of world().controllers.values()) controller.kill(name);
      };
      signal('SIGSTOP');
      try {
        for (const [name, finalizers] of Object.entries({
          untaken: [],
          taken: ['vipnat.io/load-balancer'],
        })) {
          const labels = { app: name };
          await create('Service', 'gates', {
            metadata: { name, finalizers },
            spec: { ...classless, selector: labels },
          });
        }
        await waitFor(async () => (await admit({ labels: { app: 'taken' } })).gates.length > 0, stepsMs);
        expect((await admit({ labels: { app: 'untaken' } })).gates).toEqual([]);
      } finally {
        signal('SIGCONT');
      }
    });

    for (const name of onlyLong('each Service of the namespace costs time'))
      test(name, async () => {
        const medians: number[] = [];
        for (const [count, namespace] of [0, 10, 1000].map((count) => [count, `cost-${count}`] as const)) {
          await create('Namespace', null, {
            metadata: { name: namespace, labels: { 'vipnat.io/gates': 'enabled' } },
          });
          await create('ServiceAccount', namespace, { metadata: { name: 'default' } });
          const spec = { ...ours, ports: [{ port: 80 }], selector: { app: 'stranger' } };
          for (let index = 0; index < count; index += 1)
            await create('Service', namespace, { metadata: { name: `s-${index}`, annotations }, spec });
          await sleep(2000);
          const took: number[] = [];
          for (let time = 0; time < 50; time += 1) {
            const from = performance.now();
            await admit({ namespace });
            took.push(performance.now() - from);
          }
          medians.push(took.sort((one, other) => one - other)[25] ?? NaN);
        }
        tell(
          `a pod with 0, 10 and 1,000 Services beside it: ${medians.map((ms) => ms.toFixed(1)).join(', ')} ms`,
        );
        expect(medians.filter(Number.isFinite)).toHaveLength(3);
      });

    test('a sidecar and an environment with one name twice stay as they are', async () => {
      const env = [
        { name: 'A', value: '1' },
        { name: 'A', value: '2' },
      ];
      const initContainers = [{ name: 'sidecar', image: 'sidecar', restartPolicy: 'Always' }];
      const admitted = await admit({ spec: { containers: [{ ...containers[0], env }], initContainers } });
      expect(admitted.gates).toEqual([ownGate]);
      expect(admitted.containers).toMatchObject([{ env }]);
      expect(listPauses(admitted.initContainers)).toEqual([null]);
    });
  });
}

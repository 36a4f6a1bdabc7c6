import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { onlyLong } from '../../support/jest/extent.ts';
import { tell } from '../../support/lab/test-lab.ts';
import {
  type Injected,
  injectedNamespaces,
  type InjectedPod,
  injectingServices,
  injectionCases,
  plainContainers,
  readInjected,
  takenCases,
  toPod,
} from '../../support/manifest/injected-pods.ts';
import { type KubernetesObject } from '../../support/manifest/printing.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { type ServicesWorld, stepsMs } from './services-world.ts';

/** They ask for no address of the pool that other tests count. */
const annotations = { 'vipnat.io/pool': 'none' };

async function create(
  world: ServicesWorld,
  kind: string,
  namespace: string | null,
  object: object,
): Promise<void> {
  const { name, ...metadata } = (object as KubernetesObject).metadata;
  await world.create({
    ...{ apiVersion: 'v1', kind, ...object },
    metadata: { name, ...metadata, ...(namespace === null ? {} : { namespace }) },
  });
}

/** What a real apiserver makes of a new pod. */
export async function admit(
  { api }: ServicesWorld,
  pod: Omit<InjectedPod, 'namespace'> & { readonly namespace?: string },
): Promise<Injected & { readonly spec: object }> {
  const { namespace = 'gates', ...parts } = pod;
  const path = `/api/v1/namespaces/${namespace}/pods?dryRun=All`;
  const { code, object: made } = await api.ask({ method: 'POST', path, object: toPod(parts) });
  if (code !== 201) throw new Error(`${code} ${made.message ?? ''}`);
  const spec = made['spec'] as object;
  return { ...readInjected(spec), spec };
}

/** Tests of what a real apiserver makes of new pods, by the printed policy or by the webhook. */
export function testInjection(world: () => ServicesWorld): void {
  describe('in a namespace that asks for gates', () => {
    beforeAll(async () => {
      for (const [name, labels] of Object.entries(injectedNamespaces)) {
        await create(world(), 'Namespace', null, { metadata: { name, labels } });
        await create(world(), 'ServiceAccount', name, { metadata: { name: 'default' } });
        for (const [service, spec] of Object.entries(injectingServices))
          await create(world(), 'Service', name, {
            metadata: { name: service, annotations },
            spec: { ports: [{ port: 80 }], ...spec },
          });
      }
      await waitFor(async () => (await admit(world(), {})).gates.length > 0, stepsMs);
    });

    test.each(injectionCases)('%s', async (_, pod, injected) => {
      expect(await admit(world(), pod)).toMatchObject(injected);
    });

    for (const name of onlyLong('each Service of the namespace costs time'))
      test(name, async () => {
        const medians: number[] = [];
        for (const [count, namespace] of [0, 10, 1000].map((count) => [count, `cost-${count}`] as const)) {
          await create(world(), 'Namespace', null, {
            metadata: { name: namespace, labels: { 'vipnat.io/gates': 'enabled' } },
          });
          await create(world(), 'ServiceAccount', namespace, { metadata: { name: 'default' } });
          const spec = { ...injectingServices['web'], ports: [{ port: 80 }], selector: { app: 'stranger' } };
          for (let index = 0; index < count; index += 1)
            await create(world(), 'Service', namespace, {
              metadata: { name: `s-${index}`, annotations },
              spec,
            });
          await sleep(2000);
          const took: number[] = [];
          for (let time = 0; time < 50; time += 1) {
            const from = performance.now();
            await admit(world(), { namespace });
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
      const admitted = await admit(world(), {
        spec: { containers: [{ ...plainContainers[0], env }], initContainers },
      });
      expect(admitted.gates).toHaveLength(1);
      expect(admitted.spec).toMatchObject({ containers: [{ env }] });
      expect((admitted.spec as { initContainers: object[] }).initContainers[0]).not.toHaveProperty(
        'lifecycle',
      );
    });
  });
}

/** Tests of a Service without a class. While controllers stand still, so that the API alone decides. */
export function testTaken(world: () => ServicesWorld): void {
  test('a Service without a class counts as soon as a controller has taken it', async () => {
    const classless = { type: 'LoadBalancer', ports: [{ port: 80 }] };
    // These controllers serve none without a class, and would give it back.
    const signal = (name: NodeJS.Signals) => {
      for (const controller of world().controllers.values()) controller.kill(name);
    };
    signal('SIGSTOP');
    try {
      for (const [index, [finalizers]] of takenCases.entries()) {
        const name = `taken-${index}`;
        await create(world(), 'Service', 'gates', {
          metadata: { name, finalizers },
          spec: { ...classless, selector: { app: name } },
        });
      }
      const listGates = async (index: number) =>
        (await admit(world(), { labels: { app: `taken-${index}` } })).gates;
      // The last one is taken.
      await waitFor(async () => (await listGates(takenCases.length - 1)).length > 0, stepsMs);
      for (const [index, [, isTaken]] of takenCases.entries())
        expect(await listGates(index)).toHaveLength(isTaken ? 1 : 0);
    } finally {
      signal('SIGCONT');
    }
  });
}

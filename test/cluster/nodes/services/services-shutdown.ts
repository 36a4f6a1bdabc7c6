import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { describe, beforeAll, afterAll, test, expect } from '@jest/globals';
import { workers, namedPods, replacePods, listNamedPods, type NamedPod } from './named-pods.ts';
import {
  makeOrderly,
  waitForInhibitor,
  unmakeOrderly,
  shutDown,
  waitForOff,
} from '../../../../tools/lab/nodes/orderly.ts';
import { bootAgain } from './power-cycle.ts';
import {
  createWeb,
  removeWeb,
  waitForAddress,
  findHolder,
  webPort,
  podPort,
} from '../../../../tools/lab/services/web.ts';
import { connectWhile } from './services-load.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { tell } from '../../../support/lab/test-lab.ts';

const name = 'orderly';

/** Pods have 40 s, and critical ones the 20 s after that. */
const periods = { shutdownGracePeriod: '60s', shutdownGracePeriodCriticalPods: '20s' };

/** Long enough to ask pods that were told to end. */
const servesOnMs = 15_000;
const pod = { terminationGracePeriodSeconds: 30 };

/** What balancers have heard after this. */
const heardMs = 1000;

const greetings = 200;

/** Tests what clients see of a worker that its kubelet, logind and systemd shut down in order: Kubernetes deletes none of its pods. */
export function testOrderlyShutdown(lab: () => NodeLab): void {
  describe('a worker that is shut down in order', () => {
    beforeAll(async () => {
      for (const node of workers) {
        await lab().powerOff(node);
        makeOrderly(lab(), node, periods);
        await bootAgain(lab(), node);
        await waitForInhibitor(lab(), node);
      }
      await createWeb(lab(), { name, pod, ...namedPods(servesOnMs) });
    });

    afterAll(async () => {
      await removeWeb(lab(), name);
      for (const node of workers) {
        if (await lab().isOn(node)) await lab().powerOff(node);
        unmakeOrderly(lab(), node);
        await bootAgain(lab(), node);
      }
    });

    test('and has no address: its pods get no new connection from the beginning, and none fails until it is off', async () => {
      await replacePods(lab(), name);
      const address = await waitForAddress(lab(), name);
      const holder = (await findHolder(lab(), address)) ?? '';
      const [victim = ''] = workers.filter((node) => node !== holder);
      const own = (await listNamedPods(lab(), name)).filter(({ node }) => node === victim);
      expect(own).not.toEqual([]);
      const report = await connectWhile(lab(), { address, what: 'a worker shut down' }, async () => {
        await shutDown(lab(), victim);
        await waitForWord(lab(), victim);
        await sleep(heardMs);
        await expectNoNewConnection(lab(), { address, victim, own });
        await waitForOff(lab(), victim);
      });
      expect(report.failed).toEqual([]);
      await bootAgain(lab(), victim);
      await waitForInhibitor(lab(), victim);
    });
  });
}

/** Waits until a kubelet has said that its node shuts down. */
async function waitForWord(lab: NodeLab, node: string): Promise<void> {
  await waitUntil(`${node} is said to shut down`, async () => {
    const path = 'jsonpath={.status.conditions[?(@.type=="Ready")].message}';
    const message = await lab.ask(['get', 'node', node, '--output', path]);
    return message.includes('node is shutting down') ? null : message;
  });
}

/** The pods of a node that shuts down serve on, and are not deleted: only their node says that they end. */
async function expectNoNewConnection(
  lab: NodeLab,
  { address, victim, own }: { address: string; victim: string; own: readonly NamedPod[] },
): Promise<void> {
  const { apiservers, errors } = await lab.seat('client', 'new').greet(address, webPort, greetings);
  tell(`${victim} shuts down: ${JSON.stringify(apiservers)} answered`);
  expect({ errors, own: own.filter((each) => each.name in apiservers) }).toEqual({ errors: {}, own: [] });
  const [other = ''] = workers.filter((node) => node !== victim);
  for (const { name: podName, address: podAddress } of own) {
    const direct = await lab.seat(other, 'direct').greet(podAddress, podPort, 1);
    expect(direct).toMatchObject({ apiservers: { [podName]: 1 }, errors: {} });
  }
  const now = (await listNamedPods(lab, name)).filter((each) => own.some((one) => one.name === each.name));
  expect(now.map(({ isDeleted }) => isDeleted)).toEqual(own.map(() => false));
}

import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { webPort, waitForAddress } from '../../lab/services/web.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { outsider } from '../../../test/support/network/layout.ts';

/** A Service that was created, and how long that took. */
export interface NewService {
  readonly address: string;
  /** From the answer of the API to its creation until kubectl shows the address, in milliseconds. */
  readonly addressMs: number;
  /** Until a client outside had the first answer. */
  readonly answerMs: number;
}

const answerLimitMs = 30_000;

/** Creates a Service of type LoadBalancer for the pods of the web servers. */
export async function createService(lab: NodeLab, name: string): Promise<NewService> {
  await lab.apply({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: {
      ...{ type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb', selector: { app: 'web' } },
      ports: [{ port: webPort, targetPort: 8080 }],
    },
  });
  const started = performance.now();
  const address = await waitForAddress(lab, name);
  const addressMs = performance.now() - started;
  while (!(await answers(lab, address))) {
    if (performance.now() - started > answerLimitMs) throw new Error(`${address} does not answer`);
    await sleep(20);
  }
  return { address, addressMs, answerMs: performance.now() - started };
}

/** Whether a client outside gets an answer within a second. */
async function answers(lab: NodeLab, address: string): Promise<boolean> {
  const command = ['curl', '--silent', '--fail', '--max-time', '1', `http://${address}:${webPort}/`];
  return (await lab.machine(outsider.name).run(command)).exitCode === 0;
}

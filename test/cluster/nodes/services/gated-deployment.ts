import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { describe, beforeAll, afterAll, test, expect } from '@jest/globals';
import { serveDockerImage } from '../../../../tools/lab/nodes/registry.ts';
import { waitForAddress } from '../../../../tools/lab/services/web.ts';
import { printServices, servicesNamespace, waitForServices } from '../../../../tools/lab/services/install.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** Its pods are there, and ready, long before. */
const stateLimitMs = 90_000;

const workers = ['worker', 'worker2'];
const gate = 'cloudnativestation.net/load-balancer-ready';

/** The Deployment of the article from which gates come, with today's API version (and what that version requires) and nothing else. */
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    run: nginx
  name: nginx
spec:
  replicas: 1
  selector:
    matchLabels:
      run: nginx
  template:
    metadata:
      labels:
        run: nginx
    spec:
      readinessGates:
      - conditionType: ${gate}
      containers:
      - image: nginx
        name: nginx
`;

const service = `apiVersion: v1
kind: Service
metadata:
  name: nginx
spec:
  type: LoadBalancer
  loadBalancerClass: vipnat.io/lb
  selector:
    run: nginx
  ports:
  - port: 80
`;

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

/** Tests that a Deployment with a gate of another name goes through the states that its article prints. */
export function testGatedDeployment(lab: () => NodeLab): void {
  describe('a Deployment with a gate of another name', () => {
    let endRegistry: (() => Promise<void>) | undefined;

    beforeAll(async () => {
      const command = ['nginx', '-g', 'daemon off;'];
      const image = { name: 'docker.io/library/nginx:latest', packages: ['nginx-light'], command };
      endRegistry = await serveDockerImage(lab(), image, workers);
      await addGate(lab());
      await scaleControllers(lab(), 0);
      await lab().apply(`${service}---\n${deployment}`);
    });

    afterAll(async () => {
      await lab().ask(['delete', 'deployment,service', 'nginx', '--ignore-not-found', '--timeout=60s']);
      await endRegistry?.();
    });

    test('is not ready without a controller, although its containers are', async () => {
      await waitForCondition(lab(), 'ContainersReady');
      const conditions = await readConditions(lab());
      expect(conditions.find(({ type }) => type === 'Ready')).toMatchObject({
        status: 'False',
        reason: 'ReadinessGatesNotReady',
        message: `corresponding condition of pod readiness gate "${gate}" does not exist.`,
      });
      expect(conditions.filter(({ type }) => type === gate)).toEqual([]);
    });

    test('is ready, and answers, as soon as nodes have it', async () => {
      await scaleControllers(lab(), 2);
      await waitForCondition(lab(), 'Ready');
      expect((await readConditions(lab())).find(({ type }) => type === gate)).toMatchObject({
        ...{ status: 'True', reason: 'LBHealthy', message: 'LB synced successfully' },
      });
      const url = `http://${await waitForAddress(lab(), 'nginx')}/`;
      const { stdout } = await lab().machine('client').run(['curl', '--silent', '--max-time', '2', url]);
      expect(stdout).toContain('nginx');
    });
  });
}

/** The manifest gives the name to the controllers, and to the policy that says what they may write. */
async function addGate(lab: NodeLab): Promise<void> {
  await lab.apply(await printServices(lab, '--gate', gate));
  await waitForServices(lab);
}

async function scaleControllers(lab: NodeLab, replicas: number): Promise<void> {
  const words = ['vipnat-controller', '--namespace', servicesNamespace, `--replicas=${replicas}`];
  await lab.ask(['scale', 'deployment', ...words]);
  const labels = ['--selector', 'app.kubernetes.io/name=vipnat-controller'];
  if (replicas === 0)
    await lab.ask([
      ...['wait', 'pod', '--for=delete', ...labels, '--namespace', servicesNamespace, '--timeout=50s'],
    ]);
  else await waitForServices(lab);
}

async function waitForCondition(lab: NodeLab, type: string): Promise<void> {
  await waitUntil(
    `${type} is True of the pod of nginx`,
    async () => {
      const conditions = await readConditions(lab);
      const isTrue = conditions.some((each) => each.type === type && each.status === 'True');
      return isTrue ? null : JSON.stringify(conditions);
    },
    stateLimitMs,
  );
}

async function readConditions(lab: NodeLab): Promise<readonly Condition[]> {
  // Its ReplicaSet may not have made a pod yet: an index would be an error then.
  const path = 'jsonpath={.items[*].status.conditions}';
  const text = await lab.ask(['get', 'pods', '--selector', 'run=nginx', '--output', path]);
  return text === '' ? [] : (JSON.parse(text) as Condition[]);
}

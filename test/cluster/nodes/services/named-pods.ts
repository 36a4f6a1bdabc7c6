import { nodes, isMaster } from '../../../../tools/lab/nodes/hosts.ts';
import { type WebOptions, podPort } from '../../../../tools/lab/services/web.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

/** The nodes that have pods and addresses. */
export const workers = nodes.filter((node) => !isMaster(node)).map(({ name }) => name);

/** Where a pod of `namedPods` says whether it is ready. */
const healthPort = 8081;

/** So that pods of it are found among a node's processes. */
const firstWords = 'const named = require';

const inDefault = ['--namespace', 'default'];

/**
 * For `createWeb`: pods that say their name to whoever connects, as `isNamed` and `greet` expect it. Each is ready or not as `changeReadiness`
 * says, and serves on for so long when it is told to end.
 */
export function namedPods(servesOnMs: number): Required<Pick<WebOptions, 'program' | 'container'>> {
  const program = `${firstWords}('node:net');
const server = named.createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => undefined).on('data', (data) => socket.write(data));
  socket.write(process.env.HOSTNAME + '\\n');
});
server.listen(${podPort}, '::');
const health = named.createServer((socket) => socket.on('error', () => undefined).end());
const change = () => (health.listening ? health.close() : health.listen(${healthPort}, '::'));
change();
process.on('SIGUSR2', change);
process.on('SIGTERM', () => setTimeout(() => process.exit(0), ${servesOnMs}));`;
  const readinessProbe = { tcpSocket: { port: healthPort }, periodSeconds: 1, failureThreshold: 1 };
  return { program, container: { readinessProbe } };
}

export interface NamedPod {
  readonly name: string;
  readonly node: string;
  readonly address: string;
  readonly isReady: boolean;
  readonly isDeleted: boolean;
}

interface PodObject {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly phase: string;
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** The pods of a Deployment that have not come to their end. */
export async function listNamedPods(lab: NodeLab, deployment: string): Promise<NamedPod[]> {
  const words = ['get', 'pods', ...inDefault, '--selector', `app=${deployment}`, '--output', 'json'];
  const { items } = JSON.parse(await lab.ask(words)) as { readonly items: readonly PodObject[] };
  return items
    .filter(({ status }) => !['Failed', 'Succeeded'].includes(status.phase))
    .map(({ metadata, spec, status }) => ({
      name: metadata.name,
      node: spec.nodeName ?? '',
      address: status.podIP ?? '',
      isReady: status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true,
      isDeleted: metadata.deletionTimestamp !== undefined,
    }));
}

/** Replaces all pods of a Deployment, and waits until only new ones are there, with a ready one on each worker. */
export async function replacePods(lab: NodeLab, deployment: string): Promise<void> {
  const of = [`deployment/${deployment}`, ...inDefault];
  const before = await listNamedPods(lab, deployment);
  await lab.ask(['rollout', 'restart', ...of]);
  await lab.ask(['rollout', 'status', ...of, '--timeout=120s'], { limitMs: 150_000 });
  await waitUntil(`the pods of ${deployment} are new, and each worker has one`, async () => {
    const now = await listNamedPods(lab, deployment);
    const left = now.filter(({ name }) => before.some((pod) => pod.name === name));
    const empty = workers.filter((node) => !now.some((pod) => pod.node === node && pod.isReady));
    return left.length === 0 && empty.length === 0 ? null : JSON.stringify({ left, empty });
  });
}

/** Has the pods of a node be ready if they are not, and not ready if they are. Waits until the API says so. */
export async function changeReadiness(lab: NodeLab, deployment: string, node: string): Promise<void> {
  const before = (await listNamedPods(lab, deployment)).filter((pod) => pod.node === node);
  await runShell(lab.machine(node), `pkill -USR2 --full '^node -e ${firstWords}'`);
  await waitUntil(`the pods on ${node} are otherwise`, async () => {
    const now = await listNamedPods(lab, deployment);
    const same = before.filter(
      ({ name, isReady }) => now.find((pod) => pod.name === name)?.isReady === isReady,
    );
    return same.length === 0 ? null : `as before: ${same.map(({ name }) => name).join(', ')}`;
  });
}

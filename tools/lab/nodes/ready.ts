import type { NodeLab } from './node-lab.ts';
import { nodes } from './hosts.ts';
import { masters } from '../../../test/support/network/layout.ts';
import { vipnatCommand } from '../components/agent.ts';
import { WaitedTooLong } from '../settings/error.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** All of it takes 25 s on two cores; on a busy machine many times that. */
const longestMs = 300_000;

const restMs = 200;

/** Waits until an apiserver answers the client at the VIP. */
export async function waitForVip(lab: NodeLab): Promise<void> {
  await waitUntil('an apiserver answers at the VIP', async () => {
    const { exitCode, stdout } = await lab.kubectl(['get', '--raw', '/readyz', '--request-timeout=2s']);
    return exitCode === 0 && stdout === 'ok' ? null : 'none does';
  });
}

/** Waits until all nodes are ready, or those named. */
export async function waitForNodes(
  lab: NodeLab,
  names: readonly string[] = nodes.map(({ name }) => name),
): Promise<void> {
  await waitUntil('the nodes are ready', async () => {
    const ready = await listReady(lab, 'nodes');
    const missing = names.filter((name) => !ready.has(name));
    return missing.length === 0 ? null : `not yet: ${missing.join(', ')}`;
  });
}

/** Waits until these pods of kube-system are ready. */
export async function waitForPods(lab: NodeLab, expected: readonly string[]): Promise<void> {
  await waitUntil('the pods are ready', async () => {
    const ready = await listReady(lab, 'pods');
    const missing = expected.filter((name) => !ready.has(name));
    return missing.length === 0 ? null : `not yet: ${missing.join(', ')}`;
  });
}

/** Waits until a DaemonSet of kube-system has a ready pod of its newest kind on every node that it is for. */
export async function waitForDaemonSet(lab: NodeLab, name: string): Promise<void> {
  await waitUntil(`the DaemonSet ${name} is ready`, async () => {
    const words = ['rollout', 'status', `daemonset/${name}`, '--namespace', 'kube-system', '--timeout=30s'];
    const { exitCode, stdout, stderr } = await lab.kubectl(words);
    return exitCode === 0 ? null : `${stdout}${stderr}`.trim();
  });
}

/** Waits until every master balances the VIP over all apiservers, and has nothing left to do. */
export async function waitForAgents(lab: NodeLab): Promise<void> {
  await waitUntil('the VIP is balanced on every master', async () => {
    const checks = await Promise.all(
      masters.map(({ name }) => lab.machine(name).run(vipnatCommand('check', '--vip', lab.vip))),
    );
    const isGood = checks.every(
      ({ exitCode, stdout }) => exitCode === 0 && stdout.includes(`${masters.length} apiserver`),
    );
    return isGood ? null : checks.map(({ stdout, stderr }) => `${stdout}${stderr}`.trim()).join('\n');
  });
}

/** As much of an object as says whether it is ready. */
interface Readiness {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly nodeName?: string };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/** A pod of kube-system. */
export interface Pod {
  readonly name: string;
  readonly node: string;
  readonly isReady: boolean;
}

/** The pods in kube-system; null when no apiserver says so. */
export async function listPods(lab: NodeLab): Promise<Pod[] | null> {
  const pods = await list(lab, 'pods');
  return (
    pods?.map((pod) => ({
      name: pod.metadata.name,
      node: pod.spec.nodeName ?? '',
      isReady: isReady(pod),
    })) ?? null
  );
}

/** The names of the nodes, or of the pods in kube-system, that are ready; none while no apiserver answers. */
async function listReady(lab: NodeLab, kind: 'nodes' | 'pods'): Promise<Set<string>> {
  const objects = (await list(lab, kind)) ?? [];
  return new Set(objects.filter(isReady).map(({ metadata }) => metadata.name));
}

function isReady({ status }: Readiness): boolean {
  return (
    status.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') ?? false
  );
}

async function list(lab: NodeLab, kind: 'nodes' | 'pods'): Promise<readonly Readiness[] | null> {
  const words = ['get', kind, '--namespace', 'kube-system', '--output', 'json', '--request-timeout=5s'];
  const { exitCode, stdout } = await lab.kubectl(words);
  return exitCode === 0 ? (JSON.parse(stdout) as { readonly items: readonly Readiness[] }).items : null;
}

/**
 * Looks until nothing is in the way any more.
 * @throws WaitedTooLong that says what was.
 */
export async function waitUntil(
  what: string,
  findObstacle: () => Promise<string | null>,
  limitMs: number = longestMs,
): Promise<void> {
  const until = performance.now() + limitMs;
  let obstacle = await findObstacle();
  while (obstacle !== null) {
    if (performance.now() > until) throw new WaitedTooLong(`${what}: ${obstacle}, after ${limitMs / 1000} s`);
    await sleep(restMs);
    obstacle = await findObstacle();
  }
}

import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { vipnatCommand } from '../../../../tools/lab/components/agent.ts';
import { execa } from 'execa';
import { masters } from '../../../support/network/layout.ts';
import { type Pod, listPods, waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** What selects every pod with an agent. */
const selector = 'app.kubernetes.io/name=vipnat';

/** What `vipnat manifest` prints for a lab's VIP, behind these words. */
export async function printManifest(lab: NodeLab, ...words: readonly string[]): Promise<string> {
  const [program = '', ...more] = vipnatCommand('manifest', ...words, '--vip', lab.vip);
  return (await execa(program, more)).stdout;
}

/** The masters in the order in which their agents are replaced: the VIP's holder last. */
export async function listHolderLast(lab: NodeLab): Promise<string[]> {
  const holders = await lab.listHolders();
  const others = masters.map(({ name }) => name).filter((name) => !holders.includes(name));
  return [...others, ...holders];
}

/** The pod of a DaemonSet called vipnat on a node; null while there is none. */
export async function findPod(lab: NodeLab, node: string): Promise<Pod | null> {
  const pods = (await listPods(lab)) ?? [];
  const isOwn = ({ name }: Pod) => name.startsWith('vipnat-') && name !== `vipnat-${node}`;
  return pods.find((pod) => pod.node === node && isOwn(pod)) ?? null;
}

/** Waits until a node's pod of the DaemonSet is ready, and another one than before; answers its name. */
export async function waitForPod(lab: NodeLab, node: string, before = ''): Promise<string> {
  let name = '';
  await waitUntil(`the DaemonSet's pod on ${node} is ready`, async () => {
    const pod = await findPod(lab, node);
    name = pod?.name ?? '';
    return pod?.isReady === true && name !== before ? null : `there is ${name === '' ? 'none' : name}`;
  });
  return name;
}

/** Waits until a node's pod of the DaemonSet runs beside the agent that is there already, and says that it waits for its end. */
export async function waitForWaiting(lab: NodeLab, node: string): Promise<void> {
  await waitUntil(`the DaemonSet's pod on ${node} waits`, async () => {
    const pod = await findPod(lab, node);
    if (pod === null) return 'there is none';
    const log = await readLog(lab, pod.name);
    return log.includes('waiting for another agent of this host to end') ? null : log;
  });
}

export async function readLog(lab: NodeLab, pod: string): Promise<string> {
  const { stdout, stderr } = await lab.kubectl(['logs', '--namespace', 'kube-system', pod]);
  return stdout + stderr;
}

/** As much of a pod as says how its containers ended before they were started again. */
interface Ended {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly containerStatuses?: readonly {
      readonly name: string;
      readonly lastState: { readonly terminated?: Terminated };
    }[];
  };
}

type Terminated = Readonly<{ exitCode: number; reason: string; finishedAt: string }>;

/** A kubelet kills what is slow to answer or to end, which only says that the machine is busy. */
const killed = 137;

/**
 * The containers that ended with an error of their own, each with its pod and when; but for those that are known. They are the agents'
 * when left out.
 */
export async function listCrashes(
  lab: NodeLab,
  known: readonly string[] = [],
  { namespace = 'kube-system', pods = selector } = {},
): Promise<string[]> {
  const words = ['get', 'pods', '--namespace', namespace, '--selector', pods, '--output', 'json'];
  const { items } = JSON.parse(await lab.ask(words)) as { readonly items: readonly Ended[] };
  const ends = items.flatMap(({ metadata, status: { containerStatuses = [] } }) =>
    containerStatuses.flatMap(({ name, lastState: { terminated } }) => {
      if (terminated === undefined || terminated.exitCode === 0) return [];
      const { exitCode, reason, finishedAt } = terminated;
      // What takes too much memory ends with the same status.
      if (exitCode === killed && reason === 'Error') return [];
      return [`${metadata.name} ${name} ${exitCode} ${reason} ${finishedAt}`];
    }),
  );
  return ends.filter((end) => !known.includes(end));
}

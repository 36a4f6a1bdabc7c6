import type { NodeLab } from './node-lab.ts';
import { listPods, type Pod } from './ready.ts';
import { nodeHosts } from './hosts.ts';
import { type Host, outsider } from '../../../test/support/network/layout.ts';
import { measureMemory } from './memory.ts';

const programs = ['containerd', 'kubelet'] as const;

/** A line for each host: its address, what its processes take of the memory, and what runs there. */
export async function describeNodes(lab: NodeLab): Promise<string[]> {
  const pods = await listPods(lab);
  const rows = await Promise.all(nodeHosts.map((host) => describeHost(lab, host, pods)));
  const total = rows.reduce((sum, { memory }) => sum + memory, 0);
  const lines = nodeHosts.map(({ name, addresses }, index) => {
    const { text = '', memory = 0 } = rows[index] ?? {};
    const size = memory === 0 ? '' : `${memory.toFixed(0)} MiB`;
    return `${name.padEnd(8)}${addresses[lab.options.family].padEnd(14)}${size.padEnd(9)}${text}`;
  });
  return [...lines, '', `all processes of the nodes take ${total.toFixed(0)} MiB of memory`];
}

interface Row {
  readonly text: string;
  /** In MiB. */
  readonly memory: number;
}

async function describeHost(lab: NodeLab, { name }: Host, pods: readonly Pod[] | null): Promise<Row> {
  if (name === outsider.name) return { text: 'outside the cluster', memory: 0 };
  if (!(await lab.isOn(name))) return { text: `without power: scripts/lab on ${name} boots it`, memory: 0 };
  const states = await Promise.all(
    programs.map(async (program) => {
      const isRunning = await lab.runs(name, program);
      return isRunning ? [] : [`${program}: NOT RUNNING`];
    }),
  );
  const own = pods?.filter(({ node }) => node === name);
  // Without the node's name or the five random letters.
  const described = own?.map(
    (pod) => `${pod.name.replace(/-[^-]*$/, '')}${pod.isReady ? '' : ': NOT READY'}`,
  );
  const text = [...states.flat(), ...(described ?? ['no apiserver tells its pods'])].join(', ');
  return { text, memory: await measureMemory(lab, name) };
}

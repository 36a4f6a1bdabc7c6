import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { defaultOptions } from '../../lab/settings/options.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { claimLab } from '../../lab/control-plane/claim.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents, buildNodeComponents } from '../../lab/build/build.ts';
import { raiseNodes } from '../../lab/nodes/raise.ts';

/**
 * Brings up a lab of real nodes that goes away with this process, also on Ctrl-C; `say` gets a line for what takes long.
 * @throws LabError that says what this machine lacks, and the way out.
 */
export async function raiseDemoNodes(say: (line: string) => void): Promise<NodeLab> {
  const options = { ...defaultOptions, name: `demo-${process.pid}`, hasNodes: true };
  requireHost(options);
  await claimLab(options.name, 'up');
  removeLabOnSignal(options.name);
  say('building etcd, Kubernetes and kubectl with Go: minutes the first time, and nothing later');
  await buildComponents(options.kubernetes, say);
  await buildNodeComponents(options.kubernetes, say);
  return await raiseNodes(options, { say });
}

import type { Lab } from './lab.ts';
import type { LabOptions } from '../settings/options.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { locateComponents } from '../build/build.ts';

const maxRuns = 5;
const retryMs = 1000;

/**
 * Runs `kube-proxy --cleanup` on a node, with the tools of a backend, until it succeeds; answers how often that was. `beforeNext` is awaited
 * between, a second when it is left out.
 */
export async function cleanUpKubeProxy(
  lab: Pick<Lab, 'folder' | 'machine' | 'options'>,
  node: string,
  iptables: LabOptions['iptables'],
  beforeNext: () => Promise<unknown> = () => sleep(retryMs),
): Promise<number> {
  const program = locateComponents(lab.options.kubernetes)['kube-proxy'];
  const path = `${lab.folder}/${iptables}-tools:${process.env['PATH'] ?? ''}`;
  for (let runs = 1; runs <= maxRuns; runs += 1) {
    const { exitCode } = await lab.machine(node).run([program, '--cleanup'], { environment: { PATH: path } });
    if (exitCode === 0) return runs;
    await beforeNext();
  }
  throw new Error('kube-proxy --cleanup never succeeds');
}

import { join } from 'node:path';
import { beforeAll } from '@jest/globals';
import { makeFolder } from '../../support/network/own-folder.ts';
import { writeChart } from '../../../tools/release/cluster/chart.ts';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { print, type KubernetesObject, parse } from '../../support/manifest/printing.ts';
import { buildHelm, locateHelm } from '../../../tools/lab/build/build.ts';
import type { CommandResult } from '../../../tools/lab/machines/machine.ts';
import { execa } from 'execa';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { masters, apiserverPort } from '../../support/network/layout.ts';
import { writeKubeconfig } from '../../../tools/lab/certificates/kubeconfig.ts';

/** Where the chart of this checkout is, as a release packs it, once `useHelm` has made it. */
export const chartFolder = makeFolder('chart');

/** Helm has to be compiled where nobody has done so yet. */
const buildLimitMs = 15 * 60_000;

/** Nothing of the caller's own Helm is read or written. */
const environment = { HELM_NO_PLUGINS: '1', HOME: '/nonexistent' };

/** Real Helm and the chart, for all tests of a file. */
export function useHelm(): void {
  beforeAll(async () => {
    await writeChart(rootFolder, chartFolder, print);
    await buildHelm((line) => process.stderr.write(`${line}\n`));
  }, buildLimitMs);
}

/** Runs `helm` with values, which it reads from its standard input. Never rejects for a failure. */
export async function helm(words: readonly string[], values: object): Promise<CommandResult> {
  const command = [...words, '--values', '-'];
  const options = { input: JSON.stringify(values), env: environment, reject: false } as const;
  const { exitCode = -1, stdout, stderr } = await execa(locateHelm(), command, options);
  return { exitCode, stdout, stderr };
}

/** The objects that the chart comes to. */
export async function render(values: object, namespace = 'kube-system'): Promise<KubernetesObject[]> {
  const words = ['template', 'vipnat', chartFolder, '--namespace', namespace];
  const { exitCode, stdout, stderr } = await helm(words, values);
  if (exitCode !== 0) throw new Error(stderr);
  return parse(stdout);
}

/** Runs `helm` for a namespace of a lab, as its administrator. */
export async function helmOn(
  lab: Lab,
  words: readonly string[],
  values: object | null = null,
  namespace = 'kube-system',
): Promise<CommandResult> {
  const { authority, admin } = lab.certificates;
  const [server = ''] = masters.map(({ addresses }) => `https://${addresses.ipv4}:${apiserverPort}`);
  const path = join(lab.folder, 'admin.kubeconfig');
  const kubeconfig = writeKubeconfig(path, { server, authority, user: 'admin', pair: admin });
  const access = ['--namespace', namespace, '--kubeconfig', kubeconfig];
  const command = [locateHelm(), ...words, ...access, ...(values === null ? [] : ['--values', '-'])];
  const input = values === null ? '' : JSON.stringify(values);
  return await lab.machine('client').run(command, { input, environment: { ...environment, HOME: '/run' } });
}

import { worker, outsider } from '../../../test/support/network/layout.ts';
import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { buildSpeaker, locateSpeaker } from '../../lab/build/build.ts';
import { say } from '../shared/run.ts';
import { waitUntil } from '../../lab/nodes/ready.ts';
import { readMetallbObjects, metallbNamespace } from '../shared/metallb-objects.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { execPath } from 'node:process';
import type { Target } from '../../../test/support/network/seat-tasks.ts';
import { webPort } from '../../lab/services/web.ts';
import { pauseImage } from '../../lab/nodes/images.ts';

/** Not vipnat's. */
export const metallbClass = 'metallb.io/bench';

/** Outside of vipnat's pool. */
const address = '10.77.0.230';

/** The speaker does not start without a pod of its own. */
const podName = `speaker-${worker.name}`;

/** Where one runs. */
const started = new WeakSet<NodeLab>();

/** Ends a program with its own standard input, as `Machine.spawn` demands. */
const bound = `const child = require('node:child_process').spawn(process.argv[1], process.argv.slice(2), { stdio: ['ignore', 'inherit', 'inherit'] });
child.on('exit', () => process.exit());
process.stdin.resume().on('end', () => child.kill('SIGKILL'));`;

/**
 * Runs MetalLB's speaker on one worker of a lab, if it does not run yet, and until the lab ends: it announces one address there, and
 * kube-proxy sends connections on.
 */
async function startMetallb(lab: NodeLab): Promise<void> {
  if (started.has(lab)) return;
  started.add(lab);
  await buildSpeaker(say);
  await waitUntil("MetalLB's objects are applied", async () => {
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: await readMetallbObjects() });
    const words = ['apply', '--server-side', '--filename', '-'];
    const { exitCode, stderr } = await lab.kubectl(words, { input });
    return exitCode === 0 ? null : stderr;
  });
  await waitUntil("MetalLB's pool and pod are there", async () => {
    const { exitCode, stderr } = await lab.kubectl(['apply', '--filename', '-'], { input: renderObjects() });
    return exitCode === 0 ? null : stderr;
  });
  const kubeconfig = join(lab.folder, 'speaker.kubeconfig');
  writeFileSync(kubeconfig, await renderKubeconfig(lab));
  const host = worker.addresses.ipv4;
  const command = [locateSpeaker(), '--port=9120', '--log-level=info', `--lb-class=${metallbClass}`];
  const environment = {
    KUBECONFIG: kubeconfig,
    METALLB_NAMESPACE: metallbNamespace,
    METALLB_NODE_NAME: worker.name,
    METALLB_POD_NAME: podName,
    METALLB_HOST: host,
  };
  const words = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const speaker = lab.machine(worker.name).spawn(['env', ...words, execPath, '-e', bound, ...command]);
  speaker.stdout?.resume();
  speaker.unref();
}

/** Has MetalLB announce an address, gives it to a Service as MetalLB's controller does, and waits until the client reaches a pod. */
export async function publishByMetallb(lab: NodeLab, service: string): Promise<Target> {
  await startMetallb(lab);
  const patch = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: address }] } } });
  const words = ['--namespace', 'default', '--subresource=status', '--type=merge', '--patch', patch];
  await lab.ask(['patch', 'service', service, ...words]);
  await waitUntil('MetalLB announces the address', async () => {
    const connect = ['timeout', '1', 'bash', '-c', `: </dev/tcp/${address}/${webPort}`];
    const { exitCode, stderr } = await lab.machine(outsider.name).run(connect);
    return exitCode === 0 ? null : stderr;
  });
  return { host: address, port: webPort };
}

function renderObjects(): string {
  const metadata = { name: 'bench', namespace: metallbNamespace };
  const of = (kind: string, spec: object) => ({ apiVersion: 'metallb.io/v1beta1', kind, metadata, spec });
  const nodeSelectors = [{ matchLabels: { 'kubernetes.io/hostname': worker.name } }];
  const items = [
    of('IPAddressPool', { addresses: [`${address}/32`] }),
    of('L2Advertisement', { ipAddressPools: ['bench'], nodeSelectors }),
    {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: podName, namespace: metallbNamespace } },
      spec: {
        ...{ nodeName: worker.name, hostNetwork: true, terminationGracePeriodSeconds: 0 },
        containers: [{ name: 'pause', image: pauseImage, imagePullPolicy: 'IfNotPresent' }],
      },
    },
  ];
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
}

async function renderKubeconfig(lab: NodeLab): Promise<string> {
  const token = await lab.ask(['create', 'token', 'speaker', '--namespace', metallbNamespace]);
  const config = await lab.ask(['config', 'view', '--raw', '--minify', '--output', 'json']);
  const { clusters } = JSON.parse(config) as { readonly clusters: readonly { readonly name: string }[] };
  const cluster = clusters[0]?.name ?? '';
  return JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'it', clusters },
    users: [{ name: 'it', user: { token: token.trim() } }],
    contexts: [{ name: 'it', context: { cluster, user: 'it' } }],
  });
}

import type { LabOptions } from '../settings/options.ts';
import { type RaiseOptions, prepareFolder } from '../control-plane/raise.ts';
import { NodeLab, adminKubeconfig } from './node-lab.ts';
import { requireHost } from '../settings/requirements.ts';
import { prepareImages, type ClusterTemplate, copyImages } from './images.ts';
import { createCertificates, type CertificateRequest } from '../certificates/certificates.ts';
import { nodes, nodeHosts, isMaster } from './hosts.ts';
import { Sandbox } from '../machines/sandbox.ts';
import { waitForRemoval, removeAfterwards, nameGroups } from './node.ts';
import { locateLab } from '../control-plane/state.ts';
import { NamespaceMachine } from '../machines/namespace-machine.ts';
import { outsider, apiserverPort, masters } from '../../../test/support/network/layout.ts';
import { renderSwitch, renderHost } from '../../../test/support/network/wiring.ts';
import { runShell } from '../machines/machine.ts';
import { kubeletPair, controllers, writeDisk, locateDisk } from './disk.ts';
import { families } from '../../../lib/net.ts';
import { renderStaticPods } from './static-pods.ts';
import { join } from 'node:path';
import { writeProxyKubeconfig } from '../components/kube-proxy.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';
import { toUrlHost } from '../components/command.ts';
import { waitForVip, waitForNodes, waitForPods, waitForDaemonSet, waitForAgents } from './ready.ts';
import { renderKubeProxy } from './kube-proxy.ts';

/**
 * Brings up a lab of real nodes: every one is ready, and so is every pod; the VIP is balanced on every master that has an
 * agent. The components have to be built. It goes away with the calling process, unless it is told to `keep`.
 * @throws LabError when it cannot be: nothing runs any more then, and its logs stay in its folder until the next one
 * of its name.
 */
export async function raiseNodes(
  options: LabOptions,
  { say = () => undefined, hasAgents = true }: RaiseOptions = {},
): Promise<NodeLab> {
  requireHost(options);
  const template = await prepareImages(say);
  const started = performance.now();
  const sayWhen = (line: string) => {
    say(`${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s  ${line}`);
  };
  return await raiseOnSwitch(options, async (lab) => {
    await createCertificates(lab.folder, listCertificates());
    await prepareDisks(lab, template, hasAgents);
    sayWhen('network, certificates and disks are there');
    await Promise.all(nodes.map(({ name }) => lab.boot(name)));
    sayWhen(`${nodes.length} nodes boot`);
    await startCluster(lab, { template, hasAgents, say: sayWhen });
  });
}

/** Makes a lab of a switch with the client, and has nodes made on it. When that fails, nothing runs any more. */
export async function raiseOnSwitch(
  options: LabOptions,
  makeNodes: (lab: NodeLab) => Promise<void>,
): Promise<NodeLab> {
  prepareFolder(
    options,
    nodeHosts.map(({ name }) => name),
  );
  const sandbox = await Sandbox.create();
  try {
    const lab = await plugIn(sandbox, options);
    await makeNodes(lab);
    return lab;
  } catch (error) {
    await sandbox.remove();
    await waitForRemoval(locateLab(options.name));
    throw error;
  }
}

/** The switch with the client, and no node yet. */
async function plugIn(sandbox: Sandbox, options: LabOptions): Promise<NodeLab> {
  const folder = locateLab(options.name);
  await removeAfterwards(sandbox, nameGroups(options.name, sandbox), folder);
  const client = await NamespaceMachine.create(sandbox, outsider.name);
  await sandbox.shell(renderSwitch(() => client.anchor, [outsider]));
  await runShell(client, renderHost(outsider, nodes));
  return new NodeLab({
    options,
    sandbox,
    machines: new Map([[outsider.name, client]]),
    anchors: { [outsider.name]: client.anchor },
  });
}

function listCertificates(): CertificateRequest[] {
  return [
    ...nodes.map(({ name, addresses }) => ({
      name: kubeletPair(name),
      subject: `/O=system:nodes/CN=system:node:${name}`,
      alternatives: [`DNS:${name}`, ...families.map((family) => `IP:${addresses[family]}`)],
    })),
    ...controllers.map((name) => ({ name, subject: `/CN=system:kube-${name}` })),
  ];
}

async function prepareDisks(lab: NodeLab, template: ClusterTemplate, hasAgents: boolean): Promise<void> {
  const { folder: labFolder, options, certificates } = lab;
  const { snapshotter } = template;
  await Promise.all(
    nodes.map(async (node) => {
      const manifests = isMaster(node) ? await renderStaticPods(node, options, hasAgents) : {};
      writeDisk(node, { labFolder, options, snapshotter, manifests });
      await copyImages(template, join(locateDisk(labFolder, node.name), '/var/lib/containerd'));
    }),
  );
  writeProxyKubeconfig(labFolder, options.family, certificates);
  writeKubeconfig(join(labFolder, adminKubeconfig), {
    server: `https://${toUrlHost(lab.vip)}:${apiserverPort}`,
    authority: certificates.authority,
    user: 'admin',
    pair: certificates.admin,
  });
}

async function startCluster(
  lab: NodeLab,
  {
    template,
    hasAgents,
    say,
  }: { template: ClusterTemplate; hasAgents: boolean; say: (line: string) => void },
): Promise<void> {
  await waitForVip(lab);
  say('an apiserver answers at the VIP');
  if (lab.hasKubeProxy) await lab.apply(renderKubeProxy(lab.folder, lab.options, template.vipnat));
  await waitForNodes(lab);
  say('all nodes are ready');
  const role = 'node-role.kubernetes.io/control-plane=';
  await lab.ask(['label', 'nodes', ...masters.map(({ name }) => name), role]);
  const names = Object.keys(await renderStaticPods(masters[0] ?? outsider, lab.options, hasAgents));
  await waitForPods(
    lab,
    masters.flatMap((master) => names.map((name) => `${name}-${master.name}`)),
  );
  if (lab.hasKubeProxy) await waitForDaemonSet(lab, 'kube-proxy');
  if (hasAgents) await waitForAgents(lab);
  say('all pods are ready, and the VIP is balanced');
}
